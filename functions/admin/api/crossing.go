package api

import (
	"context"
	"time"

	"tidegate/functions/admin/api/rest"
	"tidegate/functions/admin/auth"
	"tidegate/internal/crossing"
)

// Crossing is a call that took the use of a limit to one of its thresholds.
type Crossing struct {
	Time      time.Time `json:"time" doc:"By Valkey's clock"`
	Key       string    `json:"key" doc:"Id of the key or caller whose call it was"`
	Name      string    `json:"name,omitempty" doc:"Of the key then"`
	Group     string    `json:"group,omitempty" doc:"Of the key then"`
	Plan      string    `json:"plan,omitempty"`
	Rule      string    `json:"rule,omitempty" doc:"Route rule of the call"`
	Scope     string    `json:"scope" enum:"key,group,route,ip,route-ip,global,route-all" doc:"What the limit is on"`
	Subject   string    `json:"subject" doc:"Id of that; of an address an HMAC"`
	Limit     string    `json:"limit" doc:"As clients know it" example:"100000 per calendar month"`
	Threshold int       `json:"threshold" minimum:"1" maximum:"100" doc:"Percent of the limit"`
	Used      int64     `json:"used" doc:"With the call"`
	Max       int64     `json:"max"`
	Resets    time.Time `json:"resets" doc:"When the limit is unused, if nobody calls"`
}

type (
	crossingsInput struct {
		Key string `query:"key" maxLength:"64" doc:"Only of limits on this key or caller"`
		rest.Paging
	}
	crossingsOutput struct {
		Body struct {
			Items []Crossing `json:"items"`
			Next  string     `json:"next,omitempty" doc:"Where the list goes on; absent at its end"`
		}
	}
)

func (a *api) registerCrossings() {
	rest.Register(a.Group("usage"), rest.Operation{
		Pattern: "GET /crossings", ID: "list-crossings", Role: auth.Viewer,
		Summary: "Calls of the last 30 days that took a limit to a threshold, newest first",
	}, a.listCrossings)
}

func (a *api) listCrossings(ctx context.Context, in *crossingsInput) (*crossingsOutput, error) {
	page, err := a.Crossings.List(ctx, crossing.Query{Subject: in.Key, After: in.After, Count: in.Count})
	if err != nil {
		return nil, err
	}
	out := &crossingsOutput{}
	out.Body.Items, out.Body.Next = make([]Crossing, len(page.Events)), page.Next
	for i := range page.Events {
		e := &page.Events[i]
		out.Body.Items[i] = Crossing{
			Time: e.Time, Key: e.KeyID, Name: e.KeyName, Group: e.Group, Plan: e.Plan, Rule: e.Rule,
			Scope:   e.Scope,
			Subject: e.Subject, Limit: e.Limit, Threshold: e.Threshold, Used: e.Used, Max: e.Max,
			Resets: e.Resets,
		}
	}
	return out, nil
}
