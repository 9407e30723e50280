// Package attacks has the attack suite: attempts of anonymous callers, customers, leaked
// tokens, other web sites and operators against Tidegate. Every test calls the built
// functions through the gateways of local/, with the functions' own Valkey users. Each
// test is one row of the table in local/attacks/attacks.md and counts its attempts. A test fails
// if its row differs. With ATTACKS_TABLE=FILE the suite writes the table to that file.
// ATTACKS_FLOOD is the duration of each flood; its default is 2s.
package attacks
