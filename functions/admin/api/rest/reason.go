package rest

type (
	// Paging asks for a page of a list.
	Paging struct {
		After string `query:"after" maxLength:"1000" doc:"next of the page before"`
		Count int    `query:"count" minimum:"1" maximum:"500" default:"50"`
	}
	// ReasonQuery is the reason of a change whose body has no place for one.
	ReasonQuery struct {
		Reason string `query:"reason" maxLength:"800" doc:"Why, for the audit: up to 200 characters"`
	}
	// OptionalReason is the body of a change that needs no reason.
	OptionalReason struct {
		Body *struct {
			Reason string `json:"reason,omitempty" maxLength:"200"`
		}
	}
	// RequiredReason is the body of a change that needs a reason and nothing else.
	RequiredReason struct {
		Body struct {
			Reason string `json:"reason" minLength:"1" maxLength:"200"`
		}
	}
)

// Reason returns the reason, empty for none.
func (b OptionalReason) Reason() string {
	if b.Body == nil {
		return ""
	}
	return b.Body.Reason
}
