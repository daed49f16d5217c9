package token
