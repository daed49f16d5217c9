package web

import (
	"cmp"
	"errors"
	"net/http"
	"net/url"
	"time"

	"github.com/sallyport-dev/sallyport/login/owner"
	"github.com/sallyport-dev/sallyport/login/store"
)

func (s *Server) cookieName(name string) string {
	return map[bool]string{true: "__Secure-"}[s.secure] + "sallyport-" + name
}

// setCookie is Lax: an assistant's page leads here from another site.
func (s *Server) setCookie(w http.ResponseWriter, name, value string, life time.Duration) {
	http.SetCookie(w, &http.Cookie{
		Name: s.cookieName(name), Value: value, Path: cmp.Or(s.Config.Base, "/"), MaxAge: int(life.Seconds()),
		Secure: s.secure, HttpOnly: true, SameSite: http.SameSiteLaxMode,
	})
}

func (s *Server) cookie(r *http.Request, name string) string {
	c, err := r.Cookie(s.cookieName(name))
	if err != nil {
		return ""
	}
	return c.Value
}

// claimed reports whether there is anything that proves the owner.
func (s *Server) claimed() bool {
	password, passkeys := s.Store.Proofs()
	return password != "" || len(passkeys) > 0
}

// SetupCode makes the one-time code of a first start, or "" where there is an owner.
func (s *Server) SetupCode() string {
	if s.claimed() {
		return ""
	}
	return s.code.New(s.Now())
}

// session returns the browser's session. One that came by the one-time code counts only
// as long as nobody owns this login.
func (s *Server) session(r *http.Request) *owner.Session {
	found := s.sessions.Find(s.cookie(r, "session"), s.Now())
	if found == nil || found.Setup && s.claimed() {
		return nil
	}
	return found
}

// owned returns the owner's session. Where there is none, it answers with what a
// stranger sees, whatever was asked, or goes on with the first start.
func (s *Server) owned(w http.ResponseWriter, r *http.Request, next, wrong string) *owner.Session {
	session := s.session(r)
	switch {
	case session == nil:
		s.signInPage(w, http.StatusOK, next, wrong)
	case session.Setup:
		s.firstPage(w, session, next, wrong)
	case r.Method == http.MethodPost && r.PostForm.Get("csrf") != session.CSRF:
		fail(w, http.StatusForbidden, "access_denied", "this form is not of your session: open the page again")
	default:
		return session
	}
	return nil
}

func (s *Server) signInPage(w http.ResponseWriter, status int, next, wrong string) {
	v, name := s.view("Sign in to Sallyport", wrong, nil, true), "sign-in"
	if v.Next = next; !s.claimed() {
		v.Title, name = "Set up Sallyport", "setup"
	}
	s.show(w, status, name, v)
}

// firstPage lets the browser that knew the one-time code set a password or passkey.
func (s *Server) firstPage(w http.ResponseWriter, session *owner.Session, next, wrong string) {
	v := s.view("Set up Sallyport", wrong, session, false)
	v.Next, v.Add = next, s.offer()
	s.show(w, http.StatusOK, "first", v)
}

// begin gives the browser a new session and sends it where it wanted to go: next is only
// ever a query for our own page.
func (s *Server) begin(w http.ResponseWriter, r *http.Request, setup bool) {
	s.sessions.End(s.cookie(r, "session"), false)
	s.setCookie(w, "session", s.sessions.New(setup, s.Now()), 8*time.Hour)
	if !setup && owner.Opened(s.secret, "device", s.cookie(r, "device")) == "" {
		s.setCookie(w, "device", owner.Sign(s.secret, "device", s.Now().Format(time.RFC3339Nano)), 365*24*time.Hour)
	}
	to := s.Config.Base + "/"
	if next, err := url.ParseQuery(r.PostForm.Get("next")); err == nil && next.Has("client_id") {
		to = s.Config.Base + "/authorize?" + next.Encode()
	}
	http.Redirect(w, r, to, http.StatusSeeOther)
}

// proved checks the password or passkey that came with a form. A passkey is never delayed.
func (s *Server) proved(r *http.Request) error {
	if answer := r.PostForm.Get("answer"); answer != "" && s.passkeys != nil {
		return s.provedByPasskey(r.PostForm.Get("state"), answer)
	}
	// By the password as it is when this guess's turn has come.
	right := func() bool { hash, _ := s.Store.Proofs(); return owner.CheckPassword(hash, r.PostForm.Get("password")) }
	return s.guess(r, "that was not right: try again", right)
}

// guess runs a check under the throttle.
func (s *Server) guess(r *http.Request, wrong string, check func() bool) error {
	who := owner.Opened(s.secret, "device", s.cookie(r, "device"))
	known := who != ""
	if !known {
		who = caller(r)
	}
	ok, err := s.throttle.Try(r.Context(), who, known, check)
	if err == nil && !ok {
		err = errors.Join(errors.New(wrong), s.Note("sign_in_refused", "", "address", caller(r)))
	}
	return err
}

func (s *Server) provedByPasskey(state, answer string) error {
	_, have := s.Store.Proofs()
	credential, err := s.passkeys.Check(have, state, answer)
	if err != nil {
		return err
	}
	return s.Store.Update(func(st *store.State) error {
		for i := range st.Passkeys {
			if string(st.Passkeys[i].Credential.ID) == string(credential.ID) {
				st.Passkeys[i].Credential = *credential
			}
		}
		return nil
	})
}

// signIn takes the form of the sign-in page.
func (s *Server) signIn(w http.ResponseWriter, r *http.Request) {
	was, _ := s.Store.Proofs()
	err := s.proved(r)
	if err == nil {
		err = s.Note("sign_in", "", "address", caller(r))
	}
	s.enter(w, r, false, err)
	// A change meanwhile signed out all sessions that there were, and not yet this one.
	if now, _ := s.Store.Proofs(); err == nil && now != was {
		s.SignOut()
	}
}

// setup takes the one-time code of the first start.
func (s *Server) setup(w http.ResponseWriter, r *http.Request) {
	right := func() bool { return !s.claimed() && s.code.Use(r.PostForm.Get("code"), s.Now()) }
	wrong := "this is not the code of the last start, or it is used or ten minutes old: restart login for a new one"
	s.enter(w, r, true, s.guess(r, wrong, right))
}

// enter begins a session, or says what was wrong.
func (s *Server) enter(w http.ResponseWriter, r *http.Request, setup bool, err error) {
	if err != nil {
		s.signInPage(w, http.StatusForbidden, r.PostForm.Get("next"), err.Error())
		return
	}
	s.begin(w, r, setup)
}
