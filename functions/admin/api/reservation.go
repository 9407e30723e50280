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
			Route string `json:"route,omitempty" maxLength:"400" doc:"Name of a route rule whose limits also apply"`
			Cost  int64  `json:"cost" minimum:"1" maximum:"1000000000"`
		}
	}
	reserveOutput struct {
		Body struct {
			Reservation string          `json:"reservation,omitempty" doc:"Token for settle; absent if the key is not limited"`
			Cost        int64           `json:"cost"`
			Expires     time.Time       `json:"expires" doc:"When the reservation expires"`
			Limits      []ReservedLimit `json:"limits"`
		}
	}
	settleInput struct {
		Body struct {
			Reservation string `json:"reservation" minLength:"1" maxLength:"4000" example:"tgr_…"`
			Cost        int64  `json:"cost" minimum:"0" maximum:"1000000000" doc:"Actual cost; 0 refunds the whole reservation"`
		}
	}
	settleOutput struct {
		Body struct {
			Reserved  int64 `json:"reserved"`
			Actual    int64 `json:"actual"`
			SettleMax int64 `json:"settleMax" doc:"Most that the settlement charges to shared limits"`
			AboveMax  int64 `json:"aboveMax" doc:"Part of actual above settleMax, charged only to the caller's own limits"`
			Owed      int64 `json:"owed" doc:"Part of actual that a limit counts above its number; the limit denies until it has drained"`
			Partial   bool  `json:"partial" doc:"A refund is incomplete, or shared limits could not be reached"`
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
		Summary: "Reserve a cost in a key's limits",
		Details: "Gets 429 with Retry-After if a limit is reached. The settlement charges shared limits at " +
			"most the route's settleMax, by default 10 times cost. settleMax is never below cost.",
	}, a.reserve)
	rest.Register(group, rest.Operation{
		Pattern: "POST /reservations/settle", ID: "settle-reservation", Role: auth.Settler,
		Summary: "Settle a reservation with its actual cost",
		Details: "A reservation is settled once: 409 means that it was settled before, 410 that it " +
			"expired. Scope settle is enough.",
	}, a.settle)
}

func (a *api) reservations() app.Reservations {
	return app.Reservations{Checker: a.Checker, Crossings: a.Crossings}
}

func (a *api) reserve(ctx context.Context, in *reserveInput) (*reserveOutput, error) {
	r, err := a.reservations().Reserve(ctx, in.Body.KeyID, in.Body.Route, in.Body.Cost)
	if err != nil {
		return nil, err
	}
	out := &reserveOutput{}
	b := &out.Body
	b.Reservation, b.Cost, b.Expires = r.Reservation, r.Cost, r.Now.Add(a.Checker.ReservationExpiry)
	b.Limits = make([]ReservedLimit, len(r.Limits))
	for i, l := range r.Limits {
		b.Limits[i] = ReservedLimit{l.Scope, policydoc.LimitOf(l.Limit), l.Remaining}
	}
	return out, nil
}

func (a *api) settle(ctx context.Context, in *settleInput) (*settleOutput, error) {
	s, err := a.reservations().Settle(ctx, in.Body.Reservation, in.Body.Cost)
	if err != nil {
		return nil, err
	}
	out := &settleOutput{}
	b := &out.Body
	b.Reserved, b.Actual, b.Partial = s.Reserved, s.Actual, s.Partial
	b.SettleMax, b.AboveMax, b.Owed = s.SettleMax, s.AboveMax, s.Owed
	return out, nil
}
