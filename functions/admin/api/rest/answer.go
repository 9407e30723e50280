package rest

type (
	// None is no input, or no answer.
	None struct{}
	// Body is an answer without header fields of its own.
	Body[T any] struct{ Body T }
	// VersionedBody is an answer that a later change can be based on.
	VersionedBody[T any] struct {
		ETag string `header:"ETag"`
		Body T
	}
)

// Answer returns an answer with this body.
func Answer[T any](body T) *Body[T] { return &Body[T]{body} }

// Versioned returns an answer with this body, which is of a version.
func Versioned[T any](version int64, body T) *VersionedBody[T] {
	return &VersionedBody[T]{ETag(version), body}
}
