package app

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"tidegate/internal/answer"
	"tidegate/internal/enforce"
	"tidegate/internal/limiter"
	"tidegate/internal/policy"
)

// ReservationRequest asks for a reservation.
type ReservationRequest struct {
	KeyID string `json:"keyId"`
	Route string `json:"route,omitempty"` // name of a route rule whose limits apply too
	Cost  int64  `json:"cost"`            // 1 at least
}

// Reservation is the answer to a Request that was granted.
type Reservation struct {
	// for Settlement; empty when the key is not limited
	Reservation string          `json:"reservation,omitempty"`
	Cost        int64           `json:"cost"`
	Expires     time.Time       `json:"expires"` // from when on it cannot be settled
	Limits      []ReservedLimit `json:"limits"`
}

// ReservedLimit is how a limit stands after the reservation.
type ReservedLimit struct {
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
	Reserved  int64 `json:"reserved"`
	Actual    int64 `json:"actual"`
	Short     int64 `json:"short"`     // how much of Actual could not be charged, since a limit was reached
	SettleMax int64 `json:"settleMax"` // the most that limits shared by several callers are charged
	// how much of Actual is above it: only the caller's own limits are charged for that
	AboveMax int64 `json:"aboveMax"`
	// some of what was to be given back is still counted, or limits on others could not
	// be reached
	Partial bool `json:"partial"`
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

const aboutBlank = "about:blank"

func newProblem(status int, detail string, cause error) *RefusedError {
	return &RefusedError{Type: aboutBlank, Title: http.StatusText(status), Status: status,
		Detail: detail, cause: cause}
}

// Reserve takes a cost from a key's limits. Its error is a *RefusedError.
func Reserve(ctx context.Context, checker *enforce.Checker, r ReservationRequest) (Reservation, error) {
	checked, err := checker.Reserve(ctx, r.KeyID, r.Route, r.Cost)
	switch {
	case errors.Is(err, policy.ErrNotFound), errors.Is(err, policy.ErrUnknownKey),
		errors.Is(err, policy.ErrRefused),
		errors.Is(err, policy.ErrUnreadable):
		return Reservation{}, newProblem(http.StatusNotFound,
			"There is no such key that may call, or no such route.", err)
	case errors.Is(err, limiter.ErrCost):
		return Reservation{}, newProblem(http.StatusUnprocessableEntity,
			"The cost must be 1 at least, and no more than any limit of the key admits.", err)
	case err != nil:
		return Reservation{}, newProblem(http.StatusServiceUnavailable,
			"The limits cannot be read right now.", err)
	case !checked.Allowed:
		return Reservation{}, denied(&checked)
	}
	reserved := Reservation{Reservation: checked.Reservation, Cost: checked.Cost,
		Expires: checked.Now.Add(checker.Lease), Limits: []ReservedLimit{}}
	for _, l := range checked.Limits {
		reserved.Limits = append(reserved.Limits, ReservedLimit{l.Scope, l.Limit, l.Remaining})
	}
	return reserved, nil
}

func denied(checked *enforce.Result) *RefusedError {
	p := newProblem(http.StatusTooManyRequests, "The key is banned.", nil)
	p.Type = answer.AbnormalUsage
	if checked.BannedUntil.IsZero() {
		p.Type, p.Detail = answer.QuotaExceeded, "A limit of the key is reached."
	}
	p.RetryAfter = int64((checked.RetryAfter() + time.Second - 1) / time.Second)
	return p
}

// Settle settles a reservation. Its error is a *RefusedError.
func Settle(ctx context.Context, checker *enforce.Checker, s Settlement) (Settled, error) {
	settled, err := checker.Settle(ctx, s.Reservation, s.Cost)
	switch {
	case errors.Is(err, enforce.ErrReservation):
		return Settled{}, newProblem(http.StatusUnprocessableEntity, "This is no reservation.", err)
	case errors.Is(err, limiter.ErrCost):
		return Settled{}, newProblem(http.StatusUnprocessableEntity, "The cost is out of range.", err)
	case errors.Is(err, enforce.ErrSettled):
		return Settled{}, newProblem(http.StatusConflict, "This reservation is settled already.", err)
	case errors.Is(err, enforce.ErrExpired):
		return Settled{}, newProblem(http.StatusGone,
			"This reservation has expired. Its cost stays charged until the window passes.", err)
	case err != nil:
		return Settled{}, newProblem(http.StatusServiceUnavailable,
			"The reservation cannot be settled right now. Try again.", err)
	}
	return Settled{
		Reserved: settled.Reserved, Actual: settled.Actual, Short: settled.Short,
		SettleMax: settled.SettleMax, AboveMax: settled.AboveMax, Partial: settled.Partial,
	}, nil
}
