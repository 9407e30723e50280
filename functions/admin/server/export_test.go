package server

// What tests from outside need of the server.
const (
	MaxBody    = maxBody
	ProbeField = probeField
)

// Patterns are the routes' methods and paths.
func Patterns() []string {
	var all []string
	for _, r := range newServer(Config{OwnerAPI: true, OwnerPage: true}, Services{}, false).routes() {
		all = append(all, r.pattern)
	}
	return all
}
