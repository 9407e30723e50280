// Package reservation is the part of the JSON API with which backends reserve a cost and settle it: POST /api/v1/reservations takes from a key's
// limits by the key's id, POST /api/v1/reservations/settle makes it what was really used. The same reservations come with the authorizer's context
// on routes that settle. Who may call it, others decide.
package reservation

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"tidegate/internal/limiter"
	"tidegate/internal/policy"
)

// Request asks for a reservation.
type Request struct {
	KeyID string `json:"keyId"`
	Route string `json:"route,omitempty"` // name of a route rule whose limits apply too
	Cost  int64  `json:"cost"`            // 1 at least
}

// Reservation is the answer to a Request that was granted.
type Reservation struct {
	Reservation string    `json:"reservation,omitempty"` // for Settlement; empty when the key is not limited
	Cost        int64     `json:"cost"`
	Expires     time.Time `json:"expires"` // from when on it cannot be settled
	Limits      []Limit   `json:"limits"`
}

// Limit is how a limit stands after the reservation.
type Limit struct {
	Scope     string        `json:"scope"`
	Limit     limiter.Limit `json:"limit"`
	Remaining int64         `json:"remaining"`
}

// Settlement asks to settle a reservation.
type Settlement struct {
	Reservation string `json:"reservation"`
	Cost        int64  `json:"cost"` // what was really used; 0 gives all of it back
}

// Settled is the answer to a Settlement.
type Settled struct {
	Reserved int64 `json:"reserved"`
	Actual   int64 `json:"actual"`
	Short    int64 `json:"short"`   // how much of Actual could not be charged, since a limit was reached
	Partial  bool  `json:"partial"` // some limits on others than the caller could not be reached: they keep what was reserved
}

// RefusedError is an answer that is none, in the form of RFC 9457.
type RefusedError struct {
	Type       string `json:"type"`
	Title      string `json:"title"`
	Status     int    `json:"status"`
	Detail     string `json:"detail"`
	RetryAfter int64  `json:"-"` // seconds for a Retry-After field; 0 for none

	cause error
}

func (p *RefusedError) Error() string { return fmt.Sprintf("%d %s", p.Status, p.Detail) }

// Unwrap returns the cause, which is not for the public.
func (p *RefusedError) Unwrap() error { return p.cause }

const (
	aboutBlank    = "about:blank"
	quotaExceeded = "https://iana.org/assignments/http-problem-types#quota-exceeded"
)

func newProblem(status int, detail string, cause error) *RefusedError {
	return &RefusedError{Type: aboutBlank, Title: http.StatusText(status), Status: status, Detail: detail, cause: cause}
}

// Reserve takes a cost from a key's limits. Its error is a *RefusedError.
func Reserve(ctx context.Context, checker *policy.Checker, r Request) (Reservation, error) {
	checked, err := checker.Reserve(ctx, r.KeyID, r.Route, r.Cost)
	switch {
	case errors.Is(err, policy.ErrNotFound), errors.Is(err, policy.ErrUnknownKey), errors.Is(err, policy.ErrRefused),
		errors.Is(err, policy.ErrUnreadable):
		return Reservation{}, newProblem(http.StatusNotFound, "There is no such key that may call, or no such route.", err)
	case errors.Is(err, limiter.ErrCost):
		return Reservation{}, newProblem(http.StatusUnprocessableEntity, "The cost must be 1 at least, and no more than any limit of the key admits.", err)
	case err != nil:
		return Reservation{}, newProblem(http.StatusServiceUnavailable, "The limits cannot be read right now.", err)
	case !checked.Allowed:
		return Reservation{}, denied(&checked)
	}
	answer := Reservation{Reservation: checked.Reservation, Cost: checked.Cost, Expires: checked.Now.Add(checker.Lease), Limits: []Limit{}}
	for _, l := range checked.Limits {
		answer.Limits = append(answer.Limits, Limit{l.Scope, l.Limit, l.Remaining})
	}
	return answer, nil
}

func denied(checked *policy.Checked) *RefusedError {
	p := newProblem(http.StatusTooManyRequests, "The key is banned.", nil)
	if checked.BannedUntil.IsZero() {
		p.Type, p.Detail = quotaExceeded, "A limit of the key is reached."
	}
	p.RetryAfter = int64((checked.RetryAfter() + time.Second - 1) / time.Second)
	return p
}

// Settle settles a reservation. Its error is a *RefusedError.
func Settle(ctx context.Context, checker *policy.Checker, s Settlement) (Settled, error) {
	settled, err := checker.Settle(ctx, s.Reservation, s.Cost)
	switch {
	case errors.Is(err, policy.ErrReservation):
		return Settled{}, newProblem(http.StatusUnprocessableEntity, "This is no reservation.", err)
	case errors.Is(err, limiter.ErrCost):
		return Settled{}, newProblem(http.StatusUnprocessableEntity, "The cost is out of range.", err)
	case errors.Is(err, policy.ErrSettled):
		return Settled{}, newProblem(http.StatusConflict, "This reservation is settled already.", err)
	case errors.Is(err, policy.ErrExpired):
		return Settled{}, newProblem(http.StatusGone, "This reservation has expired. Its cost stays charged until the window passes.", err)
	case err != nil:
		return Settled{}, newProblem(http.StatusServiceUnavailable, "The reservation cannot be settled right now. Try again.", err)
	}
	return Settled{settled.Reserved, settled.Actual, settled.Short, settled.Partial}, nil
}
