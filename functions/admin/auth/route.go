package auth

import "net/http"

// Route handles one method of one path for actors with a role.
type Route struct {
	// Pattern is the method and the path without the base path, as in http.ServeMux. It is
	// one string literal in the source, from which local/attacks reads all routes.
	Pattern string
	Role    Role
	Handle  http.HandlerFunc
	// Resumes says that Handle can show the form of a POST again without saving, when the
	// form's action is page.Resume.
	Resumes bool
	MaxBody int64 // bytes of a request's body; 0 means the maximum of a form
}
