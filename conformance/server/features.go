package main

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing/fstest"
	"time"

	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/server"
	"github.com/parley-mcp/parley/skills"
)

// addResources adds resources and a template.
func addResources(s *server.Server) {
	server.AddStatic(s, mcp.Resource{URI: "test://static-text", Name: "Static text", Description: "A text.",
		MimeType: "text/plain"},
		"This is the content of the static text resource.")
	server.AddStatic(s, mcp.Resource{URI: "test://static-binary", Name: "Static binary", Description: "An image.",
		MimeType: "image/png"}, sample(png))
	server.AddStatic(s, mcp.Resource{URI: "test://watched-resource", Name: "Watched",
		Description: "A text to subscribe to.", MimeType: "text/plain"},
		"Nothing has changed yet.")
	server.AddTemplate(s, mcp.ResourceTemplate{URITemplate: "test://template/{id}/data", Name: "Template",
		Description: "Data by id.", MimeType: "application/json"},
		func(_ context.Context, in struct {
			ID string `json:"id"`
		}) (string, error) {
			return fmt.Sprintf(`{"id":%q,"data":"Data for %s"}`, in.ID, in.ID), nil
		})
}

// addPrompts adds prompts, and completion for one of them.
func addPrompts(s *server.Server) {
	server.AddPrompt(s, mcp.Prompt{Name: "test_simple_prompt", Description: "A prompt without arguments."},
		func(context.Context, struct{}) (string, error) { return "This is a simple prompt.", nil })
	server.AddPrompt(s, mcp.Prompt{Name: "test_prompt_with_arguments", Description: "A prompt with arguments."},
		func(_ context.Context, in struct {
			Arg1 string `json:"arg1" doc:"the first"`
			Arg2 string `json:"arg2" doc:"the second"`
		}) (string, error) {
			return fmt.Sprintf("The arguments are %s and %s.", in.Arg1, in.Arg2), nil
		},
		server.Complete("arg1", func(context.Context, string, map[string]string) ([]string, error) {
			return []string{"test-one", "test-two"}, nil
		}))
	server.AddPrompt(s, mcp.Prompt{Name: "test_prompt_with_embedded_resource",
		Description: "A prompt with an embedded resource."},
		func(_ context.Context, in struct {
			URI string `json:"resourceUri" doc:"the URI of the resource"`
		}) ([]mcp.PromptMessage, error) {
			shown := &mcp.EmbeddedResource{Resource: mcp.ResourceContents{URI: in.URI, MimeType: "text/plain",
				Text: "The text of the resource."}}
			return []mcp.PromptMessage{{Role: mcp.RoleUser, Content: shown},
				{Role: mcp.RoleUser, Content: mcp.Text("Summarize it.")}}, nil
		})
	server.AddPrompt(s, mcp.Prompt{Name: "test_prompt_with_image", Description: "A prompt with an image."},
		func(context.Context, struct{}) ([]mcp.PromptMessage, error) {
			return []mcp.PromptMessage{{Role: mcp.RoleUser, Content: mcp.Image(sample(png), "image/png")},
				{Role: mcp.RoleUser, Content: mcp.Text("What is it?")}}, nil
		})
	server.AddPrompt(s, mcp.Prompt{Name: "test_input_required_result_prompt",
		Description: "A prompt that asks the user."},
		func(ctx context.Context, _ struct{}) (string, error) {
			form, err := server.Elicit[struct {
				Context string `json:"context"`
			}](ctx, "What context should the prompt use?", server.Keyed("user_context"))
			if err != nil {
				return "", err
			}
			return "Explain this: " + form.Context, nil
		})
}

// addChanges adds tools that change the lists of the server.
func addChanges(s *server.Server) {
	var count atomic.Int64
	server.AddTool(s, mcp.Tool{Name: "test_trigger_tool_change", Description: "Changes the list of tools."},
		func(context.Context, struct{}) (string, error) {
			// The list is the same afterwards, but clients are notified.
			transient := mcp.Tool{Name: fmt.Sprintf("test_transient_%d", count.Add(1)), Description: "Removed at once."}
			server.AddTool(s, transient, func(context.Context, struct{}) (string, error) { return "", nil })
			s.RemoveTool(transient.Name)
			return "changed", nil
		})
	server.AddTool(s, mcp.Tool{Name: "test_trigger_prompt_change", Description: "Changes the list of prompts."},
		func(context.Context, struct{}) (string, error) {
			transient := mcp.Prompt{Name: fmt.Sprintf("test_transient_%d", count.Add(1)),
				Description: "Removed at once."}
			server.AddPrompt(s, transient, func(context.Context, struct{}) (string, error) { return "", nil })
			s.RemovePrompt(transient.Name)
			return "changed", nil
		})
}

// addLogging adds the tools that send log messages.
func addLogging(s *server.Server) {
	log := func(ctx context.Context, _ struct{}) (string, error) {
		logger := server.Logger(ctx)
		for _, text := range []string{"Tool execution started", "Tool processing data", "Tool execution completed"} {
			logger.Info(text)
		}
		return "logged", nil
	}
	server.AddTool(s, mcp.Tool{Name: "test_tool_with_logging", Description: "Logs three messages."}, log)
	server.AddTool(s, mcp.Tool{Name: "test_logging_tool", Description: "Logs at several levels."},
		func(ctx context.Context, _ struct{}) (string, error) {
			logger := server.Logger(ctx)
			logger.Debug("A debug message")
			logger.Info("An informational message")
			logger.Warn("A warning")
			logger.Error("An error")
			return "logged", nil
		})
}

// addSkills adds two skills, one of which has directories.
func addSkills(s *server.Server) {
	file := func(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text)} }
	_, err := skills.Add(s, fstest.MapFS{
		"pdf-processing/SKILL.md": file("---\nname: pdf-processing\ndescription: Extract, fill, and assemble PDF " +
			"documents\nlicense: Apache-2.0\n---\n\nChoose a template from `templates/`, and read " +
			"`references/FORMS.md` for forms.\n"),
		"pdf-processing/references/FORMS.md":     file("# Forms\n"),
		"pdf-processing/templates/invoice.md":    file("# Invoice\n"),
		"pdf-processing/templates/eu/invoice.md": file("# Invoice of the EU\n"),
		"acme/refunds/SKILL.md": file("---\nname: refunds\ndescription: Refund a customer\n---\n\n# " +
			"Refunds\n"),
		"acme/refunds/examples/email.md": file("# Email\n"),
	}, skills.Options{Cache: server.CachePolicy{TTL: 5 * time.Minute, Public: true}})
	if err != nil {
		panic(err)
	}
}
