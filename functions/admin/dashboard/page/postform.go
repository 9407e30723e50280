package page

import (
	"errors"
	"net/http"
)

// ParseForm reads the request's form, or answers the request and returns false.
func (rd *Renderer) ParseForm(w http.ResponseWriter, r *http.Request) bool {
	err := r.ParseForm()
	if err == nil {
		return true
	}
	var tooLong *http.MaxBytesError
	if errors.As(err, &tooLong) {
		rd.Fail(w, r, Problem{Status: http.StatusRequestEntityTooLarge})
		return false
	}
	rd.Fail(w, r, Problem{Status: http.StatusBadRequest})
	return false
}
