// Package valkeytest starts Valkey for tests: a real server (Start), a real cluster
// (StartCluster), one cluster for all tests of a package (SharedCluster) or the embedded
// stand-in (Embedded).
//
// Servers listen on free ports of 127.0.0.1, without persistence, and stop when the test
// ends, or the package's tests; they also end when the test process is killed. A server
// is up within some 20 ms and a cluster within some 3 s.
//
// The server is the valkey-server found on PATH, or the one that the environment variable
// VALKEY_SERVER names. A test is skipped when there is none, except with CI=true, where
// it fails.
package valkeytest
