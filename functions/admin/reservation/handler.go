package reservation

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"

	"tidegate/internal/policy"
)

// Handler answers POST /api/v1/reservations and POST /api/v1/reservations/settle, to whoever asks.
func Handler(checker *policy.Checker) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("POST /api/v1/reservations", operation(checker, http.StatusCreated, Reserve))
	mux.Handle("POST /api/v1/reservations/settle", operation(checker, http.StatusOK, Settle))
	return mux
}

const maxBody = 1 << 12

// operation reads a request in JSON and writes the answer or the problem.
func operation[In, Out any](checker *policy.Checker, status int, do func(context.Context, *policy.Checker, In) (Out, error)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var in In
		d := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxBody))
		d.DisallowUnknownFields()
		if err := d.Decode(&in); err != nil {
			writeProblem(w, newProblem(http.StatusBadRequest, "The body is not JSON of the form that is wanted.", err))
			return
		}
		out, err := do(r.Context(), checker, in)
		var p *RefusedError
		if errors.As(err, &p) {
			writeProblem(w, p)
			return
		}
		write(w, "application/json", status, out)
	})
}

func writeProblem(w http.ResponseWriter, p *RefusedError) {
	if p.RetryAfter > 0 {
		w.Header().Set("Retry-After", strconv.FormatInt(p.RetryAfter, 10))
	}
	write(w, "application/problem+json", p.Status, p)
}

func write(w http.ResponseWriter, contentType string, status int, body any) {
	w.Header().Set("Content-Type", contentType)
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) // fails only when the client is gone
}
