// Package limiter is a sliding-window rate limiter on Valkey.
package limiter
