package settings

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"
)

// CheckVariables returns the environment variables of the check function that the props
// set. HTTP_API_RESPONSE is simple, since the stack's authorizers use simple responses.
func (p *Props) CheckVariables() map[string]string {
	all := variables(p.Identity, p.Decision)
	all["HTTP_API_RESPONSE"] = "simple"
	if p.Decision.DenialInContext() {
		all["HTTP_API_DENY"] = "context"
	}
	if p.Observe.Metrics {
		all["STAGE"] = p.Stage // without STAGE the function writes no metrics
	}
	return all
}

// AdminVariables returns the environment variables of the admin function that the props
// set, without secrets and addresses.
func (p *Props) AdminVariables() map[string]string {
	all := variables(p.Login,
		Identity{ForeignKeys: p.Identity.ForeignKeys, TrustedProxies: p.Identity.TrustedProxies})
	maps.Copy(all, map[string]string{"STAGE": p.Stage, "RELEASE": p.Release,
		"OIDC_SCOPES": strings.Join(p.Login.OIDC.Scopes, " ")})
	return all
}

// DenialInContext reports whether calls over a limit pass an HTTP API, with the denial in
// the context.
func (d *Decision) DenialInContext() bool { return d.HTTPAPIDeny == "context" }

// variables returns the variables that the set fields of the structs have in their tags.
func variables(parts ...any) map[string]string {
	all := map[string]string{}
	for _, part := range parts {
		addVariables(all, reflect.ValueOf(part))
	}
	return all
}

func addVariables(all map[string]string, part reflect.Value) {
	for i := range part.NumField() {
		field, name := part.Field(i), part.Type().Field(i).Tag.Get("env")
		if field.Kind() == reflect.Struct {
			addVariables(all, field)
		} else if name != "" && !field.IsZero() {
			all[name] = text(field.Interface())
		}
	}
}

// text formats a value as the functions read it.
func text(value any) string {
	switch value := value.(type) {
	case []string:
		return strings.Join(value, ",")
	case *time.Duration:
		return value.String()
	}
	return fmt.Sprint(value)
}

// assignments returns variables as NAME=value strings.
func assignments(variables map[string]string) []string {
	var all []string
	for name, value := range variables {
		all = append(all, name+"="+value)
	}
	return all
}

// flagsOf returns pairs for strings.NewReplacer: each variable in the tags of a struct's
// fields, and its flag as "-c name". A field whose variable is the prefix of another's
// must stand below it, as JWT_JWKS below JWT_JWKS_URL.
func flagsOf(part reflect.Type) []string {
	var all []string
	for i := range part.NumField() {
		field := part.Field(i)
		if field.Type.Kind() == reflect.Struct {
			all = append(all, flagsOf(field.Type)...)
		} else if name := field.Tag.Get("env"); name != "" {
			all = append(all, name, "-c "+field.Tag.Get("flag"))
		}
	}
	return all
}

func sorted[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
