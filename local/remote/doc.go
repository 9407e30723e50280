// Package remote runs Lambda functions in containers of their own. A Server is one
// environment: it stands in its container before a function and takes invocations over
// HTTP, at the path of AWS's Runtime Interface Emulator. A Pool is the other side: it
// places each invocation with an environment that is free, as Lambda's front end does.
//
// The function itself talks to a Runtime API on the loopback interface of its container,
// as on AWS, where that is within the environment as well. So an environment can be
// frozen, cut off from the store, or restarted by itself.
package remote
