// Package keys is the operations on keys and on those that others vouch for: one by one,
// in groups, many at a time, and as an import. It changes nothing by itself: package app
// does, as for the pages.
package keys

import (
	"net/http"

	"tidegate/functions/admin/api/rest"
	"tidegate/functions/admin/app"
	"tidegate/functions/admin/auth"
	"tidegate/internal/usage"
)

type operations struct {
	keys  *app.Registry
	calls *usage.Reader
}

// Register adds the operations.
func Register(a *rest.API, keys *app.Registry, calls *usage.Reader) {
	group, ops := a.Group("keys"), operations{keys, calls}
	ops.registerKeys(group)
	ops.registerKeyActions(group)
	ops.registerGroups(group)
	ops.registerImport(group)
	ops.registerBulk(group)
	ops.registerCallers(group)
}

func (ops operations) registerKeys(group rest.Group) {
	rest.Register(group, rest.Operation{
		Pattern: "GET /keys", ID: "list-keys", Role: auth.Viewer,
		Summary: "List keys, in the order of their names unless another is asked for",
		Details: "A key that is there all the while is listed exactly once, whatever is created or deleted " +
			"meanwhile.",
	}, ops.listKeys)
	rest.Register(group, rest.Operation{
		Pattern: "POST /keys", ID: "create-key", Role: auth.Editor, Status: http.StatusCreated,
		Summary: "Create a key",
		Details: "The secret stands in the answer and cannot be had again. A value that is a key's already " +
			"gets 409, with the key's address in Location.",
	}, ops.createKey)
	rest.Register(group, rest.Operation{
		Pattern: "GET /keys/{id}", ID: "get-key", Role: auth.Viewer,
		Summary: "Get a key and how its limits stand",
	}, ops.getKey)
	rest.Register(group, rest.Operation{
		Pattern: "PATCH /keys/{id}", ID: "edit-key", Role: auth.Editor,
		Summary: "Change name, plan, tags, group, routes or expiry",
		Details: "What is left out stays. Another plan acts on the next check and keeps the counts.",
	}, ops.patchKey)
	rest.Register(group, rest.Operation{
		Pattern: "DELETE /keys/{id}", ID: "delete-key", Role: auth.Editor, Status: http.StatusNoContent,
		Summary: "Delete a key and its counts for ever",
	}, ops.deleteKey)
}
