// Package remote runs Lambda functions in separate containers. A Server is one
// environment: it runs in the function's container and takes invocations over HTTP, at
// the path of AWS's Runtime Interface Emulator. A Pool is the client: it sends each
// invocation to a free environment, as Lambda's front end does.
//
// The function itself uses a Runtime API on its container's loopback interface. So an
// environment can be frozen, disconnected from Valkey, or restarted separately.
package remote
