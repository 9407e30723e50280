package templates

// KeptPage leads back to a form that was typed before.
type KeptPage struct {
	Page   Page
	Action string // of the form
	Button string // the value of its button that saves nothing
	Hidden []Hidden
}
