package tool
