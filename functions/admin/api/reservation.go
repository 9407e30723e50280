package api

import (
	"context"
	"net/http"
	"time"

	"tidegate/functions/admin/api/rest"
	"tidegate/functions/admin/app"
	"tidegate/functions/admin/auth"
	"tidegate/functions/admin/policydoc"
)

type (
	reserveInput struct {
		Body struct {
			KeyID string `json:"keyId" minLength:"1" maxLength:"64"`
			Route string `json:"route,omitempty" maxLength:"400" doc:"Name of a route rule whose limits apply too"`
			Cost  int64  `json:"cost" minimum:"1" maximum:"1000000000"`
		}
	}
	reserveOutput struct {
		Body struct {
			Reservation string          `json:"reservation,omitempty" doc:"For settle; absent when the key is not limited"`
			Cost        int64           `json:"cost"`
			Expires     time.Time       `json:"expires" doc:"From when on it cannot be settled"`
			Limits      []ReservedLimit `json:"limits"`
		}
	}
	settleInput struct {
		Body struct {
			Reservation string `json:"reservation" minLength:"1" maxLength:"4000" example:"tgr_…"`
			Cost        int64  `json:"cost" minimum:"0" maximum:"1000000000" doc:"What was really used; 0 gives all of it back"`
		}
	}
	settleOutput struct {
		Body struct {
			Reserved  int64 `json:"reserved"`
			Actual    int64 `json:"actual"`
			Short     int64 `json:"short" doc:"How much of actual could not be charged, since a limit was reached"`
			SettleMax int64 `json:"settleMax" doc:"The most that limits shared by several callers are charged for the call"`
			AboveMax  int64 `json:"aboveMax" doc:"How much of actual is above settleMax: only the caller's own limits are charged for it"`
			Partial   bool  `json:"partial" doc:"Some of what was to be given back is still counted, or limits on others than the caller could not be reached"`
		}
	}
)

// ReservedLimit is the state of a limit after a reservation.
type ReservedLimit struct {
	Scope     string          `json:"scope" enum:"key,route,ip,route-ip,global,route-all,group"`
	Limit     policydoc.Limit `json:"limit"`
	Remaining int64           `json:"remaining"`
}

func (a *api) registerReservations() {
	group := a.Group("reservations")
	rest.Register(group, rest.Operation{
		Pattern: "POST /reservations", ID: "reserve-cost", Role: auth.Editor, Status: http.StatusCreated,
		Summary: "Take a cost from a key's limits before it is known",
		Details: "429 when a limit is reached, with Retry-After. A settlement charges limits that callers " +
			"share the route's settleMax at most, or 10 times cost; never less than cost.",
	}, a.reserve)
	rest.Register(group, rest.Operation{
		Pattern: "POST /reservations/settle", ID: "settle-reservation", Role: auth.Settler,
		Summary: "Make a reservation's cost what was really used",
		Details: "Once: 409 means settled before, 410 expired. Scope settle is enough, and good for " +
			"nothing else.",
	}, a.settle)
}

func (a *api) reservations() app.Reservations {
	return app.Reservations{Checker: a.Checker, Crossings: a.Crossings}
}

func (a *api) reserve(ctx context.Context, in *reserveInput) (*reserveOutput, error) {
	r, err := a.reservations().Reserve(ctx,
		app.ReservationRequest{KeyID: in.Body.KeyID, Route: in.Body.Route, Cost: in.Body.Cost})
	if err != nil {
		return nil, err
	}
	out := &reserveOutput{}
	b := &out.Body
	b.Reservation, b.Cost, b.Expires = r.Reservation, r.Cost, r.Expires
	b.Limits = make([]ReservedLimit, len(r.Limits))
	for i, l := range r.Limits {
		b.Limits[i] = ReservedLimit{l.Scope, policydoc.LimitOf(l.Limit), l.Remaining}
	}
	return out, nil
}

func (a *api) settle(ctx context.Context, in *settleInput) (*settleOutput, error) {
	s, err := a.reservations().Settle(ctx,
		app.SettleRequest{Reservation: in.Body.Reservation, Cost: in.Body.Cost})
	if err != nil {
		return nil, err
	}
	out := &settleOutput{}
	b := &out.Body
	b.Reserved, b.Actual, b.Short, b.Partial = s.Reserved, s.Actual, s.Short, s.Partial
	b.SettleMax, b.AboveMax = s.SettleMax, s.AboveMax
	return out, nil
}
