package auth

import "testing"

// Whoever is not named may do nothing, and a role alone makes nobody known.
func TestAnonymousCallersMayNothing(t *testing.T) {
	for name, a := range map[string]Actor{
		"none": From(t.Context()), "role without id": {Role: Editor}, "id without role": {ID: "password:ada"},
	} {
		if a.Known() || a.CanView() || a.CanSettle() || a.CanEdit() {
			t.Errorf("%s: %+v is known", name, a)
		}
	}
	ada := Actor{ID: "password:ada", Name: "ada", Kind: User, Role: Viewer}
	if got := From(With(t.Context(), ada)); got != ada || !got.Known() || got.CanEdit() {
		t.Errorf("got %+v", got)
	}
	ada.Role = Editor
	if !ada.CanEdit() || ada.String() != "ada" {
		t.Errorf("%v cannot edit", ada)
	}
	if namesake := (Actor{ID: "oidc:7", Name: "ada", Kind: User, Role: Editor}); namesake.String() !=
		"ada (oidc:7)" {
		t.Errorf("somebody else is called %v", namesake)
	}
}

// What each role may do, and no more.
func TestRoles(t *testing.T) {
	for role, want := range map[Role][3]bool{Nobody: {}, Settler: {false, true, false},
		Viewer: {true, false, false}, Editor: {true, true, true}} {
		a := Actor{ID: "token:x", Kind: Token, Role: role}
		if got := [3]bool{a.CanView(), a.CanSettle(), a.CanEdit()}; got != want {
			t.Errorf("%v: may view, settle, edit: %v, want %v", role, got, want)
		}
	}
}

// Only the names of roles that somebody can have are read.
func TestParseRole(t *testing.T) {
	for _, r := range []Role{Viewer, Editor} {
		if got, err := ParseRole(r.String()); err != nil || got != r {
			t.Errorf("%s: %v, %v", r, got, err)
		}
	}
	for _, name := range []string{"", "nobody", "Editor", "admin", "viewer ", "settler"} {
		if got, err := ParseRole(name); err == nil || got != Nobody {
			t.Errorf("%q: %v", name, got)
		}
	}
}
