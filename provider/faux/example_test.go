package faux_test

import (
	"context"
	"fmt"

	"pistore/provider"
	"pistore/provider/faux"
	"pistore/registers"
	"pistore/session"
)

// A script of one scene: the first attempt fails, the second calls a tool, and
// the turn after its result answers.
func Example() {
	p := faux.New(faux.Options{Script: faux.Script{{
		Match: faux.Contains("weather"),
		Turns: []faux.Turn{
			{faux.Fail("overloaded", true), faux.Call("weather", `{"city":"Graz"}`)},
			{faux.Text("It rains.")},
		},
	}}})
	request := provider.Request{
		Model:    registers.ModelRef{Provider: "faux", ModelID: "faux-1"},
		Messages: []session.Message{&session.UserMessage{Content: session.TextContent("What is the weather?")}},
		Attempt:  1,
	}
	response := p.Stream(context.Background(), request, nil)
	fmt.Println(response.Message.StopReason, response.Message.ErrorMessage, response.Retryable)

	request.Attempt = 2
	response = p.Stream(context.Background(), request, nil)
	call := response.Message.ToolCalls()[0]
	fmt.Println(response.Message.StopReason, call.Name, call.Arguments)

	request.Attempt = 1
	request.Messages = append(request.Messages, response.Message,
		&session.ToolResultMessage{ToolCallID: call.ID, ToolName: call.Name, Content: session.TextContent("rain")})
	response = p.Stream(context.Background(), request, nil)
	fmt.Println(response.Message.StopReason, session.JoinText(response.Message.Content))
	// Output:
	// error overloaded true
	// toolUse weather {"city":"Graz"}
	// stop It rains.
}
