// Package policies is the pages of the policy: plans, route rules, what holds for all
// callers, and the policy document as a file.
package policies
