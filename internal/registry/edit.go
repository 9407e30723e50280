package registry

import (
	"errors"
	"strings"

	"tidegate/internal/changes"
	"tidegate/internal/policy"
)

// Actor is the author of a change.
type Actor struct {
	Kind string `json:"kind" enum:"user,token,system"`
	Name string `json:"name"`
}

// Edit says who changes something and why.
type Edit struct {
	By     Actor
	Reason string // up to 200 characters; may be empty
	// Version is the version that Reset and Delete are based on, and of the policy that a change
	// of a group is based on; 0 for any. Other changes get it as an argument.
	Version int64
	// Repeat makes Create and Rotate repeatable; nil if they are not.
	Repeat *Repeat

	id string // of the change; empty for a random one
}

// Validate reports a Reason that is too long or not printable, or an edit of nobody.
func (e Edit) Validate() error {
	if e.By.Name == "" {
		return errors.New("registry: an edit names no author")
	}
	if e.Reason == "" {
		return nil
	}
	if problem := policy.TextProblem(e.Reason, policy.MaxReasonLen); problem != "" {
		return invalid("reason", problem)
	}
	return nil
}

// change returns the edit for the log.
func (e Edit) change(action string) changes.Edit {
	return changes.Edit{ID: e.id, Action: action, By: e.By.text(), Why: e.Reason}
}

// text returns the actor as the log has it.
func (a Actor) text() string { return a.Kind + ":" + a.Name }

func actorOf(text string) Actor {
	kind, name, _ := strings.Cut(text, ":")
	if kind == "" { // the log's begin
		kind = "system"
	}
	return Actor{kind, name}
}

// Actions of changes. The word before the first dot names the kind of record.
const (
	KeyCreate      = "key.create"
	KeyAdopt       = "key.adopt"
	KeyEdit        = "key.edit"
	KeyPlan        = "key.plan"
	KeyOverride    = "key.override"
	KeyOverrideEnd = "key.override.end"
	KeyRevoke      = "key.revoke"
	KeyUnrevoke    = "key.unrevoke"
	KeyRotate      = "key.rotate"
	KeyExpire      = "key.secret.expire" // of the previous secret
	KeyBan         = "key.ban"
	KeyUnban       = "key.unban"
	KeyReset       = "key.reset"
	KeyRevert      = "key.revert" // of a change of keys
	KeyDelete      = "key.delete"
	GroupReset     = "group.reset"
	PolicySave     = "policy.save"
	PolicyRevert   = "policy.revert"
	GroupOverride  = "policy.override" // of a group
	GroupEnd       = "policy.override.end"
	GroupBilling   = "policy.billing" // of a group
	TokenCreate    = "token.create"
	TokenRevoke    = "token.revoke"
)

// Prefixes of actions.
const (
	OfKeys   = "key."
	OfPolicy = "policy."
	OfTokens = "token."
)
