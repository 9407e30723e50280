package main

import (
	"fmt"

	"tidegate/infra/authorizer"
	"tidegate/infra/settings"
)

// newCheck creates the authorizer's function. Only the listed authorizers may make API
// Gateway invoke it.
func (s *Stack) newCheck() *function {
	egress, _ := s.props.Egress()
	return s.newFunction(functionSpec{
		id: "Check", name: "check",
		description: "Tidegate's authorizer: one sliding-window step per API call",
		props:       s.props.Check, timeout: settings.CheckTimeout, group: s.network.check, egress: egress,
		environment: s.props.CheckVariables(),
	})
}

// allowCallers lets the authorizers of other stacks and accounts invoke the check
// function.
func (s *Stack) allowCallers() {
	for i, caller := range s.props.Callers {
		id := fmt.Sprintf("Caller%d", i+1)
		if err := authorizer.Allow(s.check, &id, caller); err != nil {
			panic(fmt.Errorf("-c callers=%s: %w", caller, err))
		}
	}
}
