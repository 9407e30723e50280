// Package valkeytest starts Valkey for tests: a real server (Start), a real cluster
// (StartCluster) or the embedded stand-in (Embedded).
//
// Every call starts servers of its own on free ports of 127.0.0.1, without persistence,
// and stops them when the test ends; they also end when the test process is killed. A
// server is up within some 20 ms and a cluster within some 3 s, so tests need not share
// one.
//
// The server is the valkey-server found on PATH, or the one that the environment variable
// VALKEY_SERVER names. A test is skipped when there is none, except with CI=true, where
// it fails.
package valkeytest
