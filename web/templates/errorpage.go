package templates

// ErrorPage says what went wrong and what to do.
type ErrorPage struct {
	Page    Page
	Status  string // 404
	Heading string
	Advice  string
	Action  Choice // the way on; its Text is empty if there is none
	Kept    Hidden // the form that was sent, sealed; its Value is empty if there is none
	Resume  string // address that leads back to it
}
