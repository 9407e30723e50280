//go:build unix

package main

import (
	"time"

	"tidegate/internal/testing/rolling"
)

// kind is what an answer means.
type kind uint8

const (
	admitted     kind = iota // let through by the limiter
	denied                   // over a limit
	unauthorized             // not a caller
	undecided                // let through or denied without the store
	failed                   // any other status
	broken                   // no answer: whether the call counted is not known
	kinds
)

var kindNames = [kinds]string{"admitted", "denied", "unauthorized", "undecided", "failed", "broken"}

func (k kind) String() string { return kindNames[k] }

// outcome is one call as its client saw it.
type outcome struct {
	caller   int32
	status   int16
	kind     kind
	intended time.Duration // when the schedule wanted it
	sent     time.Duration
	received time.Duration
}

// took is the latency from when the call was due, with the time until it was sent.
func (o outcome) took() time.Duration { return o.received - o.intended }

// service is the latency from when the call was sent.
func (o outcome) service() time.Duration { return o.received - o.sent }

// span holds the instant of the decision.
func (o outcome) span() rolling.Span { return rolling.Span{First: o.sent, Last: o.received} }
