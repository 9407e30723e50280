package auth

import "testing"

// An actor without an id or a role is not known and has no rights.
func TestUnknownActorHasNoRights(t *testing.T) {
	for name, a := range map[string]Actor{
		"none": From(t.Context()), "role without id": {Role: Editor}, "id without role": {ID: "password:ada"},
	} {
		if a.Known() || a.CanView() || a.CanSettle() || a.CanEdit() {
			t.Errorf("%s: %+v is known or has rights", name, a)
		}
	}
	ada := Actor{ID: "password:ada", Name: "ada", Kind: User, Role: Viewer}
	if got := From(With(t.Context(), ada)); got != ada || !got.Known() || got.CanEdit() {
		t.Errorf("got %+v, want %+v, who cannot edit", got, ada)
	}
	ada.Role = Editor
	if !ada.CanEdit() || ada.String() != "ada" {
		t.Errorf("got %v, edits: %t, want ada, who can edit", ada, ada.CanEdit())
	}
	if namesake := (Actor{ID: "oidc:7", Name: "ada", Kind: User, Role: Editor}); namesake.String() !=
		"ada (oidc:7)" {
		t.Errorf("a namesake at a provider: got %v, want the name with the id", namesake)
	}
}

// Each role has exactly its rights.
func TestRoles(t *testing.T) {
	for role, want := range map[Role][3]bool{Nobody: {}, Settler: {false, true, false},
		Viewer: {true, false, false}, Editor: {true, true, true}} {
		a := Actor{ID: "token:x", Kind: Token, Role: role}
		if got := [3]bool{a.CanView(), a.CanSettle(), a.CanEdit()}; got != want {
			t.Errorf("%v: view, settle, edit: got %v, want %v", role, got, want)
		}
	}
}

// ParseRole accepts only the exact names of people's roles.
func TestParseRole(t *testing.T) {
	for _, r := range []Role{Viewer, Editor} {
		if got, err := ParseRole(r.String()); err != nil || got != r {
			t.Errorf("%s: got %v, %v", r, got, err)
		}
	}
	for _, name := range []string{"", "nobody", "Editor", "admin", "viewer ", "settler"} {
		if got, err := ParseRole(name); err == nil || got != Nobody {
			t.Errorf("%q: got %v, want an error", name, got)
		}
	}
}
