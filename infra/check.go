package main

import (
	"fmt"

	"tidegate/infra/authorizer"
)

// checkTimeout in seconds. An HTTP API waits for 10 at most.
const checkTimeout = 5

// newCheck is the authorizer's function. API Gateway may invoke it through authorizers that are named one by one, and nobody else.
func (s *Stack) newCheck() *function {
	return s.newFunction(functionSpec{
		id: "Check", name: "check", description: "Tidegate's authorizer: one sliding-window step per API call",
		props: s.props.Check, timeout: checkTimeout, group: s.network.check,
		environment: map[string]string{"HTTP_API_RESPONSE": "simple"},
	})
}

// allowCallers lets the authorizers of other stacks and accounts invoke the check function.
func (s *Stack) allowCallers() {
	for i, caller := range s.props.Callers {
		id := fmt.Sprintf("Caller%d", i+1)
		if err := authorizer.Allow(s.check, &id, caller); err != nil {
			panic(err) // Props.check has looked at it
		}
	}
}
