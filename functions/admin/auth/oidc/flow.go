package oidc

import (
	"crypto/rand"
	"time"

	"golang.org/x/oauth2"
)

// FlowLife is the maximum time of a log-in at the provider.
const FlowLife = 10 * time.Minute

// flow is a log-in in progress. The browser holds it sealed in a cookie, so no other
// browser can complete it and nothing is stored before the log-in.
type flow struct {
	State    string `json:"s"`
	Nonce    string `json:"n"`
	Verifier string `json:"v"`
	Next     string `json:"x"`
}

func newFlow(next string) flow {
	return flow{State: rand.Text(), Nonce: rand.Text(), Verifier: oauth2.GenerateVerifier(), Next: next}
}

// flowLabel is the label of a sealed flow.
const flowLabel = "log-in at a provider"
