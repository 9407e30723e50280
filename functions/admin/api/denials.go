package api

import (
	"tidegate/functions/admin/api/rest"
	"tidegate/functions/admin/auth"
)

func (a *api) registerDenials() {
	rest.Register(a.Group("usage"), rest.Operation{
		Pattern: "GET /denials", ID: "list-denials", Role: auth.Viewer,
		Summary: "List the denied and refused calls of the last 50 hours, newest first",
		Details: "An item is the calls of one caller, one limit or cause, and one minute. It tells of the " +
			"first of them. Numbers of calls by cause are in the history of GET /overview and of a key's " +
			"usage. Without from, to or range it lists the last 24 hours.",
	}, rest.List(a.Keys.Denials))
}
