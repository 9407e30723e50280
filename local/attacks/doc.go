// Package attacks holds the attack suite: what an anonymous caller, a customer, a leaked
// token, another web site and an operator have tried against Tidegate. Every test goes
// through the gateways of local/ to the built functions, which run as their own Valkey
// users. Each test is one row of the table in docs/security.md and counts its probes; a
// test fails when that table says something else. With ATTACKS_TABLE=FILE the suite
// writes the table to that file. ATTACKS_FLOOD is how long each flood lasts, 2s without
// it.
package attacks
