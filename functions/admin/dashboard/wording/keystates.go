package wording

import (
	"cmp"

	"tidegate/functions/admin/app"
	"tidegate/functions/admin/dashboard/form"
	"tidegate/web/templates"
)

// KeyStates are the states that filter a list of keys, with the texts of badges.
var KeyStates = []templates.Option{
	{Value: "", Text: "any state"},
	{Value: string(app.Overridden), Text: "overridden"},
	{Value: string(app.Blocked), Text: "blocked now"},
	{Value: string(app.Near), Text: "near a limit"},
	{Value: string(app.Shadow), Text: "shadow or no limits"},
	{Value: string(app.Banned), Text: "banned"},
	{Value: string(app.Expiring), Text: "expired or expiring"},
	{Value: string(app.Revoked), Text: "revoked"},
	{Value: string(app.Unreadable), Text: "unreadable"},
}

// StateText returns the text of a state's option.
func StateText(state app.State) string {
	return cmp.Or(form.OptionText(KeyStates, string(state)), KeyStates[0].Text)
}
