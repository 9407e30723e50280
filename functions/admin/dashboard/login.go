package dashboard

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"net/http"

	"tidegate/web/templates"
)

func (d *dashboard) showLogin(w http.ResponseWriter, r *http.Request) {
	next := d.localPath(r.URL.Query().Get("next"))
	if d.roleOf(r) > guest {
		http.Redirect(w, r, next, http.StatusSeeOther)
		return
	}
	d.render(w, r, http.StatusOK, templates.Login(d.loginPage(r, next)))
}

func (d *dashboard) loginPage(r *http.Request, next string) templates.LoginPage {
	return templates.LoginPage{Page: d.barePage(r, "Log in"), Submit: d.path("/login"), Next: next}
}

func (d *dashboard) login(w http.ResponseWriter, r *http.Request) {
	if !d.parseForm(w, r) {
		return
	}
	user, next := r.PostForm.Get("user"), d.localPath(r.PostForm.Get("next"))
	if !d.authenticate(user, r.PostForm.Get("password")) {
		d.Log.Warn("login refused")
		page := d.loginPage(r, next)
		page.User, page.Error = clip(user, 200), "User or password is wrong."
		d.render(w, r, http.StatusUnauthorized, templates.Login(page))
		return
	}
	// A new session id: one that somebody planted before the login is worth nothing after it.
	if err := d.sessions.RenewToken(r.Context()); err != nil {
		d.failStore(w, r, "login", err)
		return
	}
	d.sessions.Put(r.Context(), sessionUser, d.User)
	d.sessions.Put(r.Context(), sessionRole, "editor")
	d.sessions.Put(r.Context(), sessionAccount, d.account())
	http.Redirect(w, r, next, http.StatusSeeOther)
}

// account names the user and the password that a session was opened with, so that it ends when either changes.
func (d *dashboard) account() string {
	sum := sha256.Sum256([]byte(d.User + "\x00" + d.Password.hash))
	return hex.EncodeToString(sum[:])
}

// authenticate does the same work for a wrong user as for a wrong password, so that its time tells nobody which users exist.
func (d *dashboard) authenticate(user, password string) bool {
	passwordOK := d.Password.matches(password)
	got, want := sha256.Sum256([]byte(user)), sha256.Sum256([]byte(d.User))
	return subtle.ConstantTimeCompare(got[:], want[:]) == 1 && passwordOK
}

func (d *dashboard) logout(w http.ResponseWriter, r *http.Request) {
	if err := d.sessions.Destroy(r.Context()); err != nil {
		d.failStore(w, r, "logout", err)
		return
	}
	http.Redirect(w, r, d.path("/login"), http.StatusSeeOther)
}
