package main

import (
	"bytes"
	"context"
	"net"
	"net/http"
)

// beforeNextEvent makes aws-lambda-go call do before it requests the next event from the
// Runtime API at address. The client has its answer then; Lambda freezes the environment
// once the request is made.
//
// aws-lambda-go offers nothing for this. Its client dials with a clone of
// http.DefaultTransport, so this must run before lambda.Start.
func beforeNextEvent(address string, do func()) {
	transport := http.DefaultTransport.(*http.Transport)
	dial := transport.DialContext
	transport.DialContext = func(ctx context.Context, network, to string) (net.Conn, error) {
		conn, err := dial(ctx, network, to)
		if err != nil || to != address {
			return conn, err
		}
		return &runtimeConn{Conn: conn, beforeNext: do}, nil
	}
}

// runtimeConn is a connection to the Runtime API.
type runtimeConn struct {
	net.Conn

	beforeNext func()
}

var nextEvent = []byte("GET /2018-06-01/runtime/invocation/next ")

func (c *runtimeConn) Write(b []byte) (int, error) {
	if bytes.HasPrefix(b, nextEvent) {
		c.beforeNext()
	}
	return c.Conn.Write(b)
}
