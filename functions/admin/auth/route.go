package auth

import "net/http"

// Route answers one method of one path for whoever has a role.
type Route struct {
	Pattern string // method and path without the base path, as in http.ServeMux
	Role    Role
	Handle  http.HandlerFunc
	// Resumes says that Handle shows the form of a POST again, and saves nothing, when
	// the form's action is page.Resume.
	Resumes bool
	MaxBody int64 // bytes of a request's body; 0 for as many as any form has
}
