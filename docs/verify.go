// Package docs embeds the pages of this folder that a program reads.
package docs

import _ "embed"

// Verify is the page whose tables list what ./scripts/verify checks.
//
//go:embed verify.md
var Verify string
