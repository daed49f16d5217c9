package issue

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/sallyport-dev/sallyport/login/owner"
	"github.com/sallyport-dev/sallyport/login/store"
)

// refreshToken is grant and generation with an HMAC, so that the successor of a token
// can be made again after a restart although nothing of it is stored.
func refreshToken(s *store.State, grant string, generation uint64) string {
	return owner.Sign(s.Secret, "refresh", "spr."+grant+"."+strconv.FormatUint(generation, 10))
}

// parseRefresh returns what a refresh token names, if it was made here.
func parseRefresh(s *store.State, token string) (grant string, generation uint64) {
	parts := strings.Split(owner.Opened(s.Secret, "refresh", token), ".")
	if len(parts) != 3 {
		return "", 0
	}
	generation, _ = strconv.ParseUint(parts[2], 10, 64) // ours
	return parts[1], generation
}

// What a refresh token's generation means for its grant; also the name in the audit.
const (
	rotated = "refreshed"       // it was the valid one
	again   = "refreshed_again" // the predecessor within the grace: the same successor once more
	spent   = "grace_spent"     // the predecessor within the grace, too often: refused, nothing else
	replay  = "refresh_reused"  // older: the grant is withdrawn
)

// judge applies a refresh token's generation to its grant.
func (i *Issuer) judge(s *store.State, g *store.Grant, generation uint64) string {
	now := i.Now()
	switch {
	case generation == g.Generation:
		g.Generation, g.Rotated, g.Grace, g.LastUsed = g.Generation+1, now, 0, now
		return rotated
	case generation+1 != g.Generation || now.Sub(g.Rotated) > Grace:
		s.Revoke(g.ID, now)
		return replay
	case g.Grace >= MaxGrace:
		return spent
	}
	g.Grace, g.LastUsed = g.Grace+1, now
	return again
}

// Refresh rotates a refresh token.
func (i *Issuer) Refresh(ctx context.Context, p Proof, token, resource string) (*Tokens, error) {
	unknown := refuse("invalid_grant", "the refresh token is not valid: authorize again")
	g, generation, ok := i.grantOfRefresh(token)
	if !ok || !i.Now().Before(g.Expires) {
		return nil, unknown
	}
	proof, err := i.prove(ctx, &g.Client, p)
	if err != nil {
		return nil, err
	}
	if _, audience := i.Config.Find(cmp.Or(resource, g.Resource)); audience != g.Resource {
		return nil, refuse("invalid_target", "resource is not the one that was approved")
	}
	verdict := ""
	err = i.Store.Update(func(s *store.State) error {
		found := s.Grants[g.ID]
		if found == nil {
			return unknown
		}
		if err := spend(s, proof); err != nil {
			return err
		}
		verdict = i.judge(s, found, generation)
		g = *found
		return nil
	})
	if err == nil {
		err = i.Note(verdict, g.ID, "client", g.Client.ID, "generation", strconv.FormatUint(generation, 10))
	}
	switch {
	case err != nil:
		return nil, err
	case verdict == replay:
		return nil, refuse("invalid_grant", "the refresh token was used before: the grant is withdrawn")
	case verdict == spent:
		return nil, refuse("invalid_grant", fmt.Sprintf("it came more than %d times again: use the next", MaxGrace))
	}
	return i.tokens(&g)
}

func (i *Issuer) grantOfRefresh(token string) (g store.Grant, generation uint64, ok bool) {
	i.Store.View(func(s *store.State) {
		var id string
		id, generation = parseRefresh(s, token)
		if found := s.Grants[id]; found != nil {
			g, ok = *found, true
		}
	})
	return g, generation, ok
}

// RevokeToken withdraws the grant of a refresh or access token (RFC 7009). A token that
// is not known is no error.
func (i *Issuer) RevokeToken(ctx context.Context, p Proof, token string) error {
	g, _, ok := i.grantOfRefresh(token)
	if !ok {
		g, ok = i.grantOfAccess(token)
	}
	if !ok {
		return nil
	}
	proof, err := i.prove(ctx, &g.Client, p)
	if err == nil {
		err = i.Store.Update(func(s *store.State) error { return spend(s, proof) })
	}
	if err == nil {
		_, err = i.Withdraw(g.ID, "by the client")
	}
	return err
}
