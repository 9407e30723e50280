package server

import (
	"net/http"

	"tidegate/functions/admin/dashboard/page"
)

// refuseCrossSite answers 403 to a change that another site's page requests.
// http.CrossOriginProtection accepts requests without Origin and Sec-Fetch-Site, since no
// browser sends them. Only browsers use the dashboard, so those are refused too. Machines
// send a token; see hasBearer.
func (s *server) refuseCrossSite(next http.Handler) http.Handler {
	protection := http.NewCrossOriginProtection()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !s.hasBearer(r) && (protection.Check(r) != nil || unsafeWithoutOrigin(r)) {
			s.Fail(w, r, page.Problem{
				Status:  http.StatusForbidden,
				Heading: "Request from another site refused",
				Advice:  "Nothing changed. Open the dashboard and try again.",
			})
			return
		}
		next.ServeHTTP(w, r)
	})
}

func unsafeWithoutOrigin(r *http.Request) bool {
	switch r.Method {
	case http.MethodGet, http.MethodHead, http.MethodOptions:
		return false
	}
	return r.Header.Get("Origin") == "" && r.Header.Get("Sec-Fetch-Site") == ""
}
