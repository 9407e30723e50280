// Package golden holds the templates that CDK synthesises, as a test of package infra keeps them: hashes are replaced by the word HASH. The emulators
// under local read their rules from Dev, so that what is tried on a machine is what would be deployed.
package golden

import _ "embed"

// Dev is the template of a stack with every flag at its default.
//
//go:embed dev.json
var Dev []byte

// Prod is the template of a stack in stage prod with every option on.
//
//go:embed prod.json
var Prod []byte
