package web

import (
	"cmp"
	"crypto/rand"
	"errors"
	"net/http"
	"slices"
	"time"

	"github.com/sallyport-dev/sallyport/login/owner"
	"github.com/sallyport-dev/sallyport/login/store"
)

// home lists the connected clients, and what proves the owner.
func (s *Server) home(w http.ResponseWriter, r *http.Request) {
	if session := s.owned(w, r, "", ""); session != nil {
		s.homePage(w, http.StatusOK, session, "", "")
	}
}

func (s *Server) homePage(w http.ResponseWriter, status int, session *owner.Session, wrong, notice string) {
	v := s.view("Sallyport", wrong, session, true)
	v.Notice, v.Resources, v.Add = notice, s.Config.Resources, s.offer()
	s.Store.View(func(st *store.State) { v.Grants = st.Sorted() })
	v.Grants = slices.DeleteFunc(v.Grants, func(g store.Grant) bool { return v.Now.After(g.Expires) })
	s.show(w, status, "home", v)
}

// offer is a page's part that registers a passkey, or nil where that cannot be.
func (s *Server) offer() *owner.Ceremony {
	_, have := s.Store.Proofs()
	if s.passkeys == nil || len(have) >= owner.MaxPasskeys {
		return nil
	}
	c, err := s.passkeys.Offer(have)
	if err != nil {
		s.log.Error("no passkey can be offered", "error", err.Error())
	}
	return c
}

// change takes the forms of the list and of the first page.
func (s *Server) change(w http.ResponseWriter, r *http.Request) {
	session, what, next := s.session(r), r.PostForm.Get("what"), r.PostForm.Get("next")
	if session == nil || !session.Setup {
		if session = s.owned(w, r, "", "You are signed out."); session == nil {
			return
		}
	} else if r.PostForm.Get("csrf") != session.CSRF || what != "password" && what != "passkey" {
		s.firstPage(w, session, next, "open the page again")
		return
	}
	notice, err := s.apply(r, what, session)
	switch {
	case session.Setup && err != nil:
		s.firstPage(w, session, next, err.Error())
	case session.Setup:
		s.begin(w, r, false)
	case err != nil:
		s.homePage(w, http.StatusForbidden, session, err.Error(), "")
	case what == "out":
		s.signInPage(w, http.StatusOK, "", "")
	default:
		s.homePage(w, http.StatusOK, session, "", notice)
	}
}

func (s *Server) apply(r *http.Request, what string, session *owner.Session) (notice string, err error) {
	switch what {
	case "revoke":
		_, err = s.Withdraw(r.PostForm.Get("grant"), "by the owner's page")
		return "Revoked. Its open connections end within seconds.", err
	case "password":
		return "The password is set. Other browsers are signed out.", s.setPassword(r, session)
	case "passkey":
		return "The passkey is added.", s.addPasskey(r, session)
	case "forget":
		return "The passkey is removed.", s.forget(r.PostForm.Get("passkey"))
	case "out":
		s.sessions.End(s.cookie(r, "session"), false)
		return "", nil
	}
	return "", errNotOffered
}

var errNotOffered = errors.New("this page offers no such thing")

// setPassword keeps a new password and signs out all other browsers.
func (s *Server) setPassword(r *http.Request, session *owner.Session) error {
	was, _ := s.Store.Proofs()
	if !session.Setup {
		if err := s.proved(r); err != nil {
			return err
		}
	}
	hash, err := owner.HashPassword(r.PostForm.Get("new"))
	if err == nil {
		err = s.own(session, was, "password_set", func(st *store.State) { st.Password = hash })
	}
	if err == nil {
		s.sessions.End(s.cookie(r, "session"), true)
	}
	return err
}

// own keeps what proves the owner, where the password is still the one that the request
// came under: it was proved then. In a first start it must be the first proof.
func (s *Server) own(session *owner.Session, was, event string, change func(*store.State)) error {
	if err := s.Note(event, ""); err != nil {
		return err
	}
	return s.Store.Update(func(st *store.State) error {
		if st.Password != was || session.Setup && len(st.Passkeys) > 0 {
			return errors.New("somebody set or changed the password or a passkey meanwhile: sign in")
		}
		change(st)
		return nil
	})
}

// fresh is how long after a sign-in a passkey may be added where there is no password. A
// session alone is not enough: whoever borrows the browser could stay.
const fresh = 5 * time.Minute

func (s *Server) addPasskey(r *http.Request, session *owner.Session) error {
	hash, have := s.Store.Proofs()
	if s.passkeys == nil || len(have) >= owner.MaxPasskeys {
		return errNotOffered
	}
	if hash != "" {
		check := func() bool { return owner.CheckPassword(hash, r.PostForm.Get("password")) }
		if err := s.guess(r, "that was not the password: try again", check); err != nil {
			return err
		}
	} else if s.Now().Sub(session.Began) > fresh {
		return errors.New("sign out and in again first: a passkey is added within five minutes of that")
	}
	credential, err := s.passkeys.Accept(have, r.PostForm.Get("state"), r.PostForm.Get("answer"))
	if err != nil {
		return err
	}
	name := []rune(cmp.Or(r.PostForm.Get("name"), "passkey "+rand.Text()[:4]))
	added := store.Passkey{Name: string(name[:min(len(name), 40)]), Created: s.Now(), Credential: *credential}
	return s.own(session, hash, "passkey_added", func(st *store.State) { st.Passkeys = append(st.Passkeys, added) })
}

// forget removes a passkey, but not the last thing that proves the owner.
func (s *Server) forget(id string) error {
	return s.Store.Update(func(st *store.State) error {
		at := slices.IndexFunc(st.Passkeys, func(k store.Passkey) bool { return passkeyID(k) == id })
		if at < 0 || st.Password == "" && len(st.Passkeys) == 1 {
			return errors.New("this is all that proves you: add another passkey or a password first")
		}
		err := s.Note("passkey_removed", "", "passkey", id)
		if err == nil {
			st.Passkeys = slices.Delete(slices.Clone(st.Passkeys), at, at+1)
		}
		return err
	})
}

// SignOut ends every session.
func (s *Server) SignOut() { s.sessions.End("", true) }
