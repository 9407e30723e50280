package app

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"tidegate/internal/answer"
	"tidegate/internal/crossing"
	"tidegate/internal/enforce"
	"tidegate/internal/limiter"
	"tidegate/internal/policy"
)

// ReservationRequest is the request of Reserve.
type ReservationRequest struct {
	KeyID string `json:"keyId"`
	Route string `json:"route,omitempty"` // name of a route rule whose limits apply too
	Cost  int64  `json:"cost"`            // at least 1
}

// Reservation is the result of a granted ReservationRequest.
type Reservation struct {
	// token for a SettleRequest; empty if the key is not limited
	Reservation string          `json:"reservation,omitempty"`
	Cost        int64           `json:"cost"`
	Expires     time.Time       `json:"expires"` // end of the time to settle the reservation
	Limits      []ReservedLimit `json:"limits"`
}

// ReservedLimit is the state of a limit after the reservation.
type ReservedLimit struct {
	Scope     string        `json:"scope"`
	Limit     limiter.Limit `json:"limit"`
	Remaining int64         `json:"remaining"`
}

// SettleRequest is the request of Settle.
type SettleRequest struct {
	Reservation string `json:"reservation"`
	Cost        int64  `json:"cost"` // actual cost; 0 refunds the whole reservation
}

// Settlement is the result of a SettleRequest.
type Settlement struct {
	Reserved  int64 `json:"reserved"`
	Actual    int64 `json:"actual"`
	Short     int64 `json:"short"`     // part of Actual that was not charged because a limit was reached
	SettleMax int64 `json:"settleMax"` // most that is charged to limits shared by several callers
	AboveMax  int64 `json:"aboveMax"`  // part of Actual above SettleMax, charged to the caller's limits only
	// some of the refund is still counted, or shared limits could not be reached
	Partial bool `json:"partial"`
}

// RefusedError is a refusal in the form of RFC 9457.
type RefusedError struct {
	Type       string `json:"type"`
	Title      string `json:"title"`
	Status     int    `json:"status"`
	Detail     string `json:"detail"`
	RetryAfter int64  `json:"-"` // seconds for a Retry-After field; 0 for none

	cause error
}

// Error implements error.
func (p *RefusedError) Error() string { return fmt.Sprintf("%d %s", p.Status, p.Detail) }

// Unwrap returns the cause, which clients must not see.
func (p *RefusedError) Unwrap() error { return p.cause }

func refused(status int, detail string, cause error) *RefusedError {
	return &RefusedError{Type: "about:blank", Title: http.StatusText(status), Status: status,
		Detail: detail, cause: cause}
}

// Reservations charges costs in advance and settles them later. Crossings records the
// thresholds that are crossed.
type Reservations struct {
	Checker   *enforce.Checker
	Crossings *crossing.Store
}

// Reserve charges a cost to a key's limits. Its error is a *RefusedError.
func (a Reservations) Reserve(ctx context.Context, r ReservationRequest) (Reservation, error) {
	result, err := a.Checker.Reserve(ctx, r.KeyID, r.Route, r.Cost)
	a.Crossings.Report(ctx, crossing.ResultOf(&result, policy.APIKey), result.Crossings)
	switch {
	case errors.Is(err, policy.ErrNotFound), errors.Is(err, policy.ErrUnknownKey),
		errors.Is(err, policy.ErrRefused), errors.Is(err, policy.ErrUnreadable):
		return Reservation{}, refused(http.StatusNotFound,
			"No such key or route rule, or the key may not call.", err)
	case errors.Is(err, limiter.ErrCost):
		return Reservation{}, refused(http.StatusUnprocessableEntity,
			"The cost must be at least 1, and at most what every limit of the key admits.", err)
	case err != nil:
		return Reservation{}, refused(http.StatusServiceUnavailable,
			"The limits cannot be read right now. Try again.", err)
	case !result.Allowed:
		return Reservation{}, denied(&result)
	}
	reserved := Reservation{Reservation: result.Reservation, Cost: result.Cost,
		Expires: result.Now.Add(a.Checker.ReservationExpiry), Limits: []ReservedLimit{}}
	for _, l := range result.Limits {
		reserved.Limits = append(reserved.Limits, ReservedLimit{l.Scope, l.Limit, l.Remaining})
	}
	return reserved, nil
}

func denied(result *enforce.Result) *RefusedError {
	p := refused(http.StatusTooManyRequests, "The key is banned.", nil)
	p.Type = answer.AbnormalUsage
	if result.BannedUntil.IsZero() {
		p.Type, p.Detail = answer.QuotaExceeded, "A limit of the key is reached."
	}
	p.RetryAfter = int64((result.RetryAfter() + time.Second - 1) / time.Second)
	return p
}

// Settle settles a reservation. Its error is a *RefusedError.
func (a Reservations) Settle(ctx context.Context, s SettleRequest) (Settlement, error) {
	settled, err := a.Checker.Settle(ctx, s.Reservation, s.Cost)
	a.Crossings.Report(ctx, crossing.SettlementOf(&settled), settled.Crossings)
	switch {
	case errors.Is(err, enforce.ErrReservation):
		return Settlement{}, refused(http.StatusUnprocessableEntity, "This is not a reservation.", err)
	case errors.Is(err, limiter.ErrCost):
		return Settlement{}, refused(http.StatusUnprocessableEntity, "The cost is out of range.", err)
	case errors.Is(err, enforce.ErrSettled):
		return Settlement{}, refused(http.StatusConflict, "This reservation is already settled.", err)
	case errors.Is(err, enforce.ErrExpired):
		return Settlement{}, refused(http.StatusGone,
			"This reservation has expired. Its cost stays charged until the window passes.", err)
	case err != nil:
		return Settlement{}, refused(http.StatusServiceUnavailable,
			"The reservation cannot be settled right now. Try again.", err)
	}
	return Settlement{
		Reserved: settled.Reserved, Actual: settled.Actual, Short: settled.Short,
		SettleMax: settled.SettleMax, AboveMax: settled.AboveMax, Partial: settled.Partial,
	}, nil
}
