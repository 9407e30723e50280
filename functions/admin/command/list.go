package command

import (
	"net/http"
	"slices"

	"tidegate/functions/admin/api/keys"
	"tidegate/functions/admin/api/rest"
	"tidegate/functions/admin/auth"
	"tidegate/functions/admin/policydoc"
	"tidegate/internal/policy"
)

// Operations adds the operations of all commands to the API.
func Operations(a *rest.API, s *Services) {
	for _, e := range commands() {
		if e.Operation != "" {
			e.register(a.Group(e.Group), s)
		}
	}
	for _, b := range bulks {
		b.register(a.Group("keys"), s)
	}
}

// onOne has an answer for a command on a key.
func onOne[C any](c *C, _ Result) *rest.VersionedBody[policy.Key] {
	k := any(c).(onKeyTarget).one().key //nolint:forcetypeassert // only for commands on keys
	return rest.Versioned(k.Version, k)
}

type onKeyTarget interface{ one() *OnKey }

// ofGroup has an answer for a command on a group.
func ofGroup[C any](c *C, _ Result) *rest.VersionedBody[keys.Group] {
	g := any(c).(interface{ onGroup() *OnGroup }).onGroup() //nolint:forcetypeassert // only for commands on groups
	return rest.Versioned(g.set.Version, keys.GroupOf(g.set, g.group))
}

// ofPolicy has an answer for a command on the policy.
func ofPolicy[C any](c *C, r Result) *rest.VersionedBody[Changes] {
	return any(c).(interface { //nolint:forcetypeassert // only for commands on the policy
		answer(Result) *rest.VersionedBody[Changes]
	}).answer(r)
}

// commands returns all commands but those to many keys.
func commands() []entry {
	return slices.Concat(keyCommands(), groupCommands(), policyCommands(), otherCommands())
}

func keyCommands() []entry {
	return []entry{
		of(Spec{Group: "keys", ID: "create-key", Operation: "POST /keys", Status: http.StatusCreated,
			Summary: "Create a key",
			Details: "Only this response has the secret, and the one to a repeat with the same " +
				"Idempotency-Key and body. The value of an existing key gets 409, with that key's URL " +
				"in Location.",
			Form: "/keys/new", To: "/keys", Heading: "Create a key", Submit: "Create the key",
		}, func(c *CreateKey, _ Result) *Secret { return secretOf(c.key, c.secret) }),
		of(Spec{Group: "keys", ID: "import-keys", Operation: "POST /import", MaxBody: maxImport,
			Summary: "Create up to 100 keys",
			Details: "All keys are created in one change. A key with a value is created once, even if " +
				"it is sent twice.",
		}, func(c *ImportKeys, _ Result) *Imported {
			out := &Imported{}
			out.Body.Results = c.results
			return out
		}),
		of(Spec{Group: "keys", ID: "adopt-caller", Operation: "POST /callers", Status: http.StatusCreated,
			Summary: "Create the record of a caller without an API key",
			Details: "With a record, the holder of a JWT or an address can have an override or a ban, " +
				"by the operations on keys.",
			Form: "/callers/new", Heading: "Override or ban a caller", Submit: "Continue",
			Lead: "An override or a ban needs a record of the caller. It stores the name, your " +
				"settings and a hash of the token's subject or the address.",
		}, func(c *Register, _ Result) *Registered {
			return &Registered{keyURL(c.key), rest.ETag(c.key.Version), c.key}
		}),
		of(Spec{Group: "keys", ID: "edit-key", Operation: "PATCH /keys/{id}", Versioned: true,
			Summary: "Change a key's name, plan, tags, group, routes, billing day or expiry",
			Details: "Omitted fields stay unchanged. A new plan takes effect on the next check and " +
				"keeps the counts.",
			Form: "/keys/{id}/edit", Heading: "Edit", Submit: "Save", Done: "Saved.", Preview: true,
			Lead: "A new plan applies from the next check. Counts and an override are kept.",
		}, onOne[Edit]),
		of(Spec{Group: "keys", ID: "delete-key", Operation: "DELETE /keys/{id}",
			Status:  http.StatusNoContent,
			Summary: "Delete a key permanently",
			Form:    "/keys/{id}/delete", Heading: "Delete", Submit: "Delete permanently", Danger: true,
			Lead: "Deletes the key and its counts. Its change history is kept. This cannot be undone.",
		}, none[Delete]),
		of(Spec{Group: "keys", ID: "override-key", Operation: "PUT /keys/{id}/override", Versioned: true,
			Summary: "Override the limits of the key's plan",
			Details: "Takes effect on the next check and keeps the counts.",
			Form:    "/keys/{id}/limits", Heading: "Limits of", Submit: "Save", Preview: true,
			Lead: "For this caller only. Applies from the next check. Counts are kept.",
		}, onOne[Override]),
		of(Spec{Group: "keys", ID: "end-override", Operation: "DELETE /keys/{id}/override",
			Summary: "Remove the override and apply the plan again",
			Form:    "/keys/{id}/end", Heading: "End the override of", Submit: "End the override",
			Lead: "The plan's limits apply from the next check. Counts are kept.",
			Done: "Override ended. The plan's limits apply.",
		}, onOne[EndOverride]),
		of(Spec{Group: "keys", ID: "revoke-key", Operation: "POST /keys/{id}/revoke",
			Summary: "Revoke a key from the next check on; unrevoke restores it",
			Form:    "/keys/{id}/revoke", Heading: "Revoke", Submit: "Revoke", Danger: true,
			Done: "Key revoked.",
			Lead: "Calls with this key get 401 from the next check. You can restore the key.",
		}, onOne[Revoke]),
		of(Spec{Group: "keys", ID: "unrevoke-key", Operation: "POST /keys/{id}/unrevoke",
			Summary: "Restore a revoked key",
			Form:    "/keys/{id}/unrevoke", Heading: "Restore", Submit: "Restore", Done: "Key restored.",
			Lead: "Calls with this key are allowed again, within its limits.",
		}, onOne[Unrevoke]),
		of(Spec{Group: "keys", ID: "ban-key", Operation: "POST /keys/{id}/ban",
			Summary: "Ban a key until a time",
			Form:    "/keys/{id}/ban", Heading: "Ban", Submit: "Ban", Danger: true, Done: "Banned.",
			Lead: "Calls with this key get 429 until the ban ends.",
		}, onOne[Ban]),
		of(Spec{Group: "keys", ID: "unban-key", Operation: "POST /keys/{id}/unban",
			Summary: "Remove a ban",
			Form:    "/keys/{id}/unban", Heading: "Unban", Submit: "Unban", Done: "Ban lifted.",
			Lead: "Calls with this key are allowed again, within its limits.",
		}, onOne[Unban]),
		of(Spec{Group: "keys", ID: "reset-key", Operation: "POST /keys/{id}/reset",
			Summary: "Reset the counts of a key",
			Form:    "/keys/{id}/reset", Heading: "Reset the counts of", Submit: "Reset", Danger: true,
			Lead: "All counts go to zero. This cannot be undone.", Done: "Counts reset.",
		}, onOne[Reset]),
		of(Spec{Group: "keys", ID: "rotate-key", Operation: "POST /keys/{id}/rotate", Versioned: true,
			Status: http.StatusCreated, Summary: "Rotate the secret of a key",
			Details: "Keeps plan, counts and history. Only this response has the new secret. A key has " +
				"at most two secrets, so this needs accept=true while the previous secret is valid. " +
				"If-Match keeps a repeated request from rotating twice; with Idempotency-Key it gets " +
				"the same secret.",
			Form: "/keys/{id}/rotate", Heading: "Rotate the secret of", Submit: "Rotate secret",
			Danger: true,
			Lead: "The key gets a new secret. Plan, counts and history are kept. The previous secret " +
				"works until its grace period ends.",
		}, func(c *Rotate, _ Result) *Secret { return secretOf(c.key, c.secret) }),
		of(Spec{Group: "keys", ID: "expire-secret-key", Operation: "POST /keys/{id}/expire-secret",
			Summary: "Expire the previous secret now",
			Form:    "/keys/{id}/expire-secret", Heading: "Expire the previous secret of",
			Submit: "Expire previous secret", Danger: true, Done: "Previous secret expired.",
			Lead: "Calls with the previous secret get 401 from the next check. This cannot be undone.",
		}, onOne[ExpireSecret]),
	}
}

const maxImport = 512 << 10 // bytes; fits 100 keys of the maximum size

// Registered is the record of a caller.
type Registered struct {
	Location string `header:"Location"`
	ETag     string `header:"ETag"`
	Body     policy.Key
}

func groupCommands() []entry {
	return []entry{
		of(Spec{Group: "keys", ID: "override-group", Operation: "PUT /groups/{name}/override",
			Versioned: true, Summary: "Override limits of each key of a group",
			Details: "Takes effect on the next check and keeps the counts. An override of a key " +
				"itself wins. The limits of each group stay.",
			Form: "/groups/{name}/limits", Heading: "Limits of the keys of group", Submit: "Save",
			Preview: true, Lead: "Overrides the plan of each key in this group. A key's own override wins. " +
				"Counts are kept.",
		}, ofGroup[GroupOverride]),
		of(Spec{Group: "keys", ID: "end-group-override", Operation: "DELETE /groups/{name}/override",
			Status: http.StatusNoContent, Summary: "Remove the override of a group",
			Form: "/groups/{name}/end", Heading: "End the override of group", Submit: "End override",
			Danger: true,
			Lead:   "The plan's limits apply to its keys from the next check. Counts are kept.",
			Done:   "Override ended. The plan's limits apply.",
		}, none[EndGroupOverride]),
		of(Spec{Group: "keys", ID: "bill-group", Operation: "PUT /groups/{name}/billing", Versioned: true,
			Summary: "Set when the billing months of a group begin",
			Details: "For limits of each group per billing month. Another day begins a new count. " +
				"Without day and zone, they begin on the first day of a month in UTC.",
			Form: "/groups/{name}/billing", Heading: "Billing day of group", Submit: "Save",
			Lead: "For limits of each group per billing month. Another day begins a new count.",
			Done: "Billing day saved.",
		}, ofGroup[BillGroup]),
		of(Spec{Group: "keys", ID: "reset-group", Operation: "POST /groups/{name}/reset",
			Status: http.StatusNoContent, Summary: "Reset the counts of a group",
			Details: "Keeps the counts of its keys.",
			Form:    "/groups/{name}/reset", Heading: "Reset the counts of group", Submit: "Reset",
			Danger: true,
			Lead:   "The group's counts go to zero. Its keys keep theirs. This cannot be undone.",
			Done:   "Counts reset.",
		}, none[ResetGroup]),
	}
}

// maxPolicyPart bounds a plan, a route, or what applies to all callers, in bytes.
const maxPolicyPart = 256 << 10

func policyCommands() []entry {
	return []entry{
		of(Spec{Group: "policy", ID: "put-policy", Operation: "PUT /policy", Versioned: true,
			MaxBody: policydoc.MaxBytes, Deadline: auth.Slow, Summary: "Replace the policies",
			Details: "Needs If-Match and a reason, except for a dry run. Every plan, limit, route and " +
				"setting that is missing from the body is removed. Takes effect on the next check.",
		}, ofPolicy[PutPolicy]),
		of(Spec{Group: "policy", ID: "import-policy", Operation: "PUT /policy.yaml", Versioned: true,
			MaxBody: policydoc.MaxBytes, Deadline: auth.Slow, Summary: "Import the policies from YAML",
			Details: "With dry_run it returns the changes without making them. Otherwise it needs a " +
				"reason and the version that it is based on: If-Match, or the version in the file. " +
				"Every plan, limit, route and setting that is missing from the file is removed.",
			Form: "/policies/import", Heading: "Import policies", Submit: "Import", Review: true,
			Lead: "The file replaces all plans, routes and limits for all callers. Whatever it omits " +
				"is deleted. Start from an export. You see the changes before saving.",
		}, ofPolicy[ImportPolicy]),
		of(Spec{Group: "policy", ID: "create-plan", Operation: "POST /plans", Status: http.StatusCreated,
			MaxBody: maxPolicyPart, Deadline: auth.Slow, Summary: "Create a plan",
			Form: "/policies/plans/new", Heading: "Create a plan", Submit: "Save", Preview: true,
		}, ofPolicy[CreatePlan]),
		of(Spec{Group: "policy", ID: "put-plan", Operation: "PUT /plans/{number}", Versioned: true,
			MaxBody: maxPolicyPart, Deadline: auth.Slow, Summary: "Replace a plan",
			Details: "Its keys keep it, also under a new name. If-Match has the ETag of the policies; " +
				"a change of another part does not make it stale.",
			Form: "/policies/plans/{number}/edit", Heading: "Edit plan", Submit: "Save", Preview: true,
		}, ofPolicy[EditPlan]),
		of(Spec{Group: "policy", ID: "delete-plan", Operation: "DELETE /plans/{number}",
			Deadline: auth.Slow,
			Summary:  "Delete a plan that no key has",
			Form:     "/policies/plans/{number}/delete", Heading: "Delete the plan", Submit: "Delete",
			Danger: true,
		}, ofPolicy[DeletePlan]),
		of(Spec{Group: "policy", ID: "create-route", Operation: "POST /routes", Status: http.StatusCreated,
			MaxBody: maxPolicyPart, Deadline: auth.Slow, Summary: "Create a route",
			Form: "/policies/routes/new", Heading: "Create a route", Submit: "Save", Preview: true,
		}, ofPolicy[CreateRoute]),
		of(Spec{Group: "policy", ID: "put-route", Operation: "PUT /routes", Versioned: true,
			MaxBody: maxPolicyPart, Deadline: auth.Slow, Summary: "Replace a route",
			Details: "Limits that name it follow a new name. If-Match is as in put-plan.",
			Form:    "/policies/routes/edit", Heading: "Route", Submit: "Save", Preview: true,
		}, ofPolicy[EditRoute]),
		of(Spec{Group: "policy", ID: "delete-route", Operation: "DELETE /routes", Deadline: auth.Slow,
			Summary: "Delete a route that no limit names",
			Form:    "/policies/routes/delete", Heading: "Delete the route", Submit: "Delete", Danger: true,
		}, ofPolicy[DeleteRoute]),
		of(Spec{Group: "policy", ID: "put-all-callers", Operation: "PUT /all-callers", Versioned: true,
			MaxBody: maxPolicyPart, Deadline: auth.Slow, Summary: "Set what applies to all callers",
			Details: "Limits, lists of networks, and the plans of callers without a key. If-Match is " +
				"as in put-plan.",
			Form: "/policies/all", Heading: "For all callers", Submit: "Save", Preview: true,
		}, ofPolicy[AllCallers]),
		of(Spec{Group: "policy", ID: "enforce-limit", Operation: "POST /limits/enforce", Deadline: auth.Slow,
			Summary: "Enforce a limit in shadow",
			Details: "Takes the mark shadow from one limit of a plan, or for all callers, and changes " +
				"nothing else.",
			Form: "/policies/enforce", Heading: "Enforce a limit of", Submit: "Enforce", Shows: true,
		}, ofPolicy[Enforce]),
	}
}

func otherCommands() []entry {
	return []entry{
		of(Spec{Group: "access", ID: "create-token", Operation: "POST /tokens", Status: http.StatusCreated,
			Summary: "Create a machine token",
			Details: "Needs a person's session, so that a leaked token cannot create another.",
			Form:    "/settings/tokens/new", Heading: "Create a machine token", Submit: "Create token",
		}, func(c *CreateToken, _ Result) *NewToken {
			out := &NewToken{Location: rest.Prefix + "/tokens/" + c.token.ID}
			out.Body.Token, out.Body.Secret = c.token, c.secret.Reveal()
			return out
		}),
		of(Spec{Group: "access", ID: "revoke-token", Operation: "DELETE /tokens/{id}",
			Status:  http.StatusNoContent,
			Summary: "Revoke a machine token, including the one of this request",
			Form:    "/settings/tokens/{id}/revoke", Done: "Token revoked.",
		}, none[RevokeToken]),
		of(Spec{Group: "audit", ID: "undo-change", Operation: "POST /audit/{number}/undo",
			Status: http.StatusNoContent, Deadline: auth.Slow, Summary: "Undo a change",
			Details: "Takes back what the change did, with a new change. What was changed since stays, " +
				"and what was revoked stays revoked.",
			Form: "/audit/{number}/undo", Heading: "Undo", Submit: "Undo", Shows: true,
		}, none[Undo]),
	}
}
