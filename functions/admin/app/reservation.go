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

// Reserve charges a cost to the limits of a key, and to those of the route rule with this
// name. Its error is a *RefusedError.
func (a Reservations) Reserve(ctx context.Context, keyID, route string, cost int64) (enforce.Result, error) {
	result, err := a.Checker.Reserve(ctx, keyID, route, cost)
	a.Crossings.Report(ctx, crossing.ResultOf(&result, policy.APIKey), result.Crossings)
	switch {
	case errors.Is(err, policy.ErrNotFound), errors.Is(err, policy.ErrUnknownKey),
		errors.Is(err, policy.ErrRefused), errors.Is(err, policy.ErrUnreadable):
		return result, refused(http.StatusNotFound,
			"No such key or route rule, or the key may not call.", err)
	case errors.Is(err, limiter.ErrCost):
		return result, refused(http.StatusUnprocessableEntity,
			"The cost must be at least 1, and at most what every limit of the key admits.", err)
	case err != nil:
		return result, refused(http.StatusServiceUnavailable,
			"The limits cannot be read right now. Try again.", err)
	case !result.Allowed:
		return result, denied(&result)
	}
	return result, nil
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
func (a Reservations) Settle(ctx context.Context, reservation string, cost int64) (
	enforce.Settlement, error) {
	settled, err := a.Checker.Settle(ctx, reservation, cost)
	a.Crossings.Report(ctx, crossing.SettlementOf(&settled), settled.Crossings)
	switch {
	case errors.Is(err, enforce.ErrReservation):
		return settled, refused(http.StatusUnprocessableEntity, "This is not a reservation.", err)
	case errors.Is(err, limiter.ErrCost):
		return settled, refused(http.StatusUnprocessableEntity, "The cost is out of range.", err)
	case errors.Is(err, enforce.ErrSettled):
		return settled, refused(http.StatusConflict, "This reservation is already settled.", err)
	case errors.Is(err, enforce.ErrExpired):
		return settled, refused(http.StatusGone,
			"This reservation has expired. Its cost stays charged until the window passes.", err)
	case err != nil:
		return settled, refused(http.StatusServiceUnavailable,
			"The reservation cannot be settled right now. Try again.", err)
	}
	return settled, nil
}
