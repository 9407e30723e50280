package registry

import (
	"tidegate/internal/audit"
	"tidegate/internal/policy"
)

// Edit says who changes something and why.
type Edit struct {
	By     audit.Actor
	Reason string // up to 200 characters; may be empty
	Job    string // id of the bulk job that the change is part of; empty for none
}

// Validate reports a Reason that is too long or not printable.
func (e Edit) Validate() error {
	if e.Reason == "" {
		return nil
	}
	if problem := policy.TextProblem(e.Reason, policy.MaxReasonLen); problem != "" {
		return policy.Invalid([]policy.FieldError{{Field: "reason", Message: problem}})
	}
	return nil
}
