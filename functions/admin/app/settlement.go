package app

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"tidegate/internal/crossing"
	"tidegate/internal/enforce"
	"tidegate/internal/limits"
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

// Settlements moves what calls took to their real costs. Crossings records the thresholds
// that are crossed.
type Settlements struct {
	Checker   *enforce.Checker
	Crossings *crossing.Store
}

// Settle settles a call by the text that its backend was given. A free cost is 0 in every
// unit. Its error is a *RefusedError.
func (a Settlements) Settle(ctx context.Context, text string, cost limits.Costs) (enforce.Settlement, error) {
	settled, err := a.Checker.Settle(ctx, text, cost)
	a.Crossings.Report(ctx, crossing.SettlementOf(&settled), settled.Crossings)
	switch {
	case errors.Is(err, enforce.ErrSettlement):
		return settled, refused(http.StatusUnprocessableEntity, "This is not a settlement.", err)
	case errors.Is(err, enforce.ErrCost):
		return settled, refused(http.StatusUnprocessableEntity, "The cost is out of range.", err)
	case errors.Is(err, enforce.ErrSettled):
		return settled, refused(http.StatusConflict, "This call is already settled.", err)
	case errors.Is(err, enforce.ErrExpired):
		return settled, refused(http.StatusGone,
			"This call can no longer be settled. Its cost stays charged until the window passes.", err)
	case err != nil:
		return settled, refused(http.StatusServiceUnavailable,
			"The call cannot be settled right now. Try again.", err)
	}
	return settled, nil
}
