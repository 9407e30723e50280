package dashboard

import (
	"errors"
	"net/http"
)

// parseForm reads the request's form, or answers the request and returns false.
func (rd *renderer) parseForm(w http.ResponseWriter, r *http.Request) bool {
	err := r.ParseForm()
	if err == nil {
		return true
	}
	var tooLong *http.MaxBytesError
	if errors.As(err, &tooLong) {
		rd.fail(w, r, problem{status: http.StatusRequestEntityTooLarge})
		return false
	}
	rd.fail(w, r, problem{status: http.StatusBadRequest})
	return false
}
