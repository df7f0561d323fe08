package main

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/coaxhq/coax/internal/admin"
	"github.com/coaxhq/coax/internal/login"
	"github.com/spf13/cobra"
)

func (a *app) loginCommand() *cobra.Command {
	return group("login", "People who sign in to the pages", `People who sign in to the pages: operators' own, and staff.

An operator's own people use the panel: an owner may do everything there, a counter sells,
and readonly only reads. A viewer, a member of support or finance, or an administrator uses
the console. A login gives no access to the API, and an API key none to the pages. A password
that is generated here is shown once, must be changed at the first sign-in, and expires after
72 hours.`,
		a.loginCreate(), a.loginList(), a.loginSet(), a.loginResetPassword(), a.loginResetTOTP())
}

func (a *app) loginCreate() *cobra.Command {
	var given admin.NewLogin
	var role string
	var fromStdin bool
	command := &cobra.Command{
		Use:   "create --username NAME --name TEXT --role ROLE [--lco ID] [--password-stdin]",
		Short: "Make a login; a generated password is shown this once",
		Long: `Make a login. Without --password-stdin a password is generated, shown once, and must be
changed at the first sign-in, within 72 hours. With it, the first line of standard input is
the password, which its person has chosen: 12 to 128 characters, none of
the 10,000 most common ones, no simple sequence, and not made of the login's own names.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			given.Role = login.Role(role)
			if err := optionalLCO(c, given.OperatorID); err != nil {
				return err
			}
			if fromStdin {
				var err error
				if given.Password, err = readPassword(c.InOrStdin()); err != nil {
					return err
				}
			}
			return a.withService(c.Context(), func(ctx context.Context, service *admin.Service) error {
				person, password, err := service.CreateLogin(ctx, given)
				if err != nil {
					return err
				}
				return a.showLogin(person, password)
			})
		},
	}
	flags := command.Flags()
	flags.StringVar(&given.Username, "username", "", "what they sign in with: 3 to 64 of a-z, 0-9 and . _ - @")
	flags.StringVar(&given.Name, "name", "", "what they are called")
	flags.StringVar(&role, "role", "", "owner, counter or readonly (an operator's), viewer, support, finance or administrator (staff's)")
	flags.Int64Var(&given.OperatorID, "lco", 0, "the `ID` of the operator, for its own people")
	flags.BoolVar(&fromStdin, "password-stdin", false, "read the password from standard input instead of generating one")
	for _, name := range []string{"username", "name", "role"} {
		_ = command.MarkFlagRequired(name)
	}
	return command
}

// readPassword reads a password from the first line of its input.
func readPassword(from io.Reader) (string, error) {
	const limit = 4 * login.MaxPasswordLength
	text, err := io.ReadAll(io.LimitReader(from, limit+2))
	if err != nil {
		return "", fmt.Errorf("read the password: %w", err)
	}
	password, _, _ := strings.Cut(string(text), "\n")
	password = strings.TrimSuffix(password, "\r")
	if password == "" {
		return "", admin.Refuse("no password came on standard input")
	}
	return password, nil
}

// showLogin prints a login, and its password if it was generated.
func (a *app) showLogin(person login.Person, password string) error {
	shown := loginObject(person)
	if password == "" {
		return a.show(shown)
	}
	err := a.show(append(shown, field{"password", password}))
	if err == nil && !a.asJSON {
		fmt.Fprintf(a.out, "\nThe password is not shown again. It must be changed at the first sign-in, and expires at %s.\n", when(person.PasswordEnds))
	}
	return err
}

func loginObject(p login.Person) object {
	status := "enabled"
	if p.Disabled {
		status = "disabled"
	}
	return object{
		{"login_id", p.ID}, {"username", p.Username}, {"name", p.Name}, {"realm", string(p.Realm)}, {"role", string(p.Role)},
		{"lco_id", orNone(p.OperatorID)}, {"status", status}, {"totp", p.TOTP}, {"passkeys", p.Passkeys}, {"must_change_password", p.MustChangePassword},
		{"created_at", when(p.CreatedAt)}, {"last_sign_in", when(p.LastSignIn)},
		{"password_ends", when(p.PasswordEnds)},
	}
}

func (a *app) loginList() *cobra.Command {
	var filter admin.LoginFilter
	var staff bool
	command := &cobra.Command{
		Use:   "list [--lco ID | --staff]",
		Short: "List logins, disabled ones too",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := optionalLCO(c, filter.OperatorID); err != nil {
				return err
			}
			if staff {
				filter.Realm = login.Staff
			}
			return a.withService(c.Context(), func(ctx context.Context, service *admin.Service) error {
				if filter.OperatorID != 0 {
					if _, err := service.Operator(ctx, filter.OperatorID); err != nil {
						return err
					}
				}
				people, err := service.Logins(ctx, filter)
				if err != nil {
					return err
				}
				var rows []object
				for _, person := range people {
					rows = append(rows, loginObject(person))
				}
				return a.list("There is no such login; `coax admin login create` makes one.", rows)
			})
		},
	}
	command.Flags().Int64Var(&filter.OperatorID, "lco", 0, "only those of the operator of this `ID`")
	command.Flags().BoolVar(&staff, "staff", false, "only staff")
	command.MarkFlagsMutuallyExclusive("lco", "staff")
	return command
}

// onLogin completes a command that acts on the login of a username.
func (a *app) onLogin(command *cobra.Command, do func(context.Context, *cobra.Command, *admin.Service, int64) error) *cobra.Command {
	var username string
	command.Args = cobra.NoArgs
	command.RunE = func(c *cobra.Command, _ []string) error {
		return a.withService(c.Context(), func(ctx context.Context, service *admin.Service) error {
			person, err := service.LoginNamed(ctx, username)
			if err != nil {
				return err
			}
			return do(ctx, c, service, person.ID)
		})
	}
	command.Flags().StringVar(&username, "username", "", "whose login")
	_ = command.MarkFlagRequired("username")
	return command
}

func (a *app) loginSet() *cobra.Command {
	var name, role, status string
	command := a.onLogin(&cobra.Command{
		Use:   "set --username NAME [--name TEXT] [--role ROLE] [--status enabled|disabled]",
		Short: "Change a login; one that is disabled is signed out everywhere at once",
	}, func(ctx context.Context, c *cobra.Command, service *admin.Service, id int64) error {
		var change admin.LoginChange
		if c.Flags().Changed("name") {
			change.Name = &name
		}
		if c.Flags().Changed("role") {
			role := login.Role(role)
			change.Role = &role
		}
		if c.Flags().Changed("status") {
			disabled := status == "disabled"
			if !disabled && status != "enabled" {
				return admin.Refuse("status %q is not known: give enabled or disabled", status)
			}
			change.Disabled = &disabled
		}
		person, err := service.ChangeLogin(ctx, id, change)
		if err != nil {
			return err
		}
		return a.showLogin(person, "")
	})
	command.Flags().StringVar(&name, "name", "", "what they are called")
	command.Flags().StringVar(&role, "role", "", "viewer, support, finance or administrator; owner, counter or readonly of an operator")
	command.Flags().StringVar(&status, "status", "", "enabled or disabled")
	return command
}

func (a *app) loginResetPassword() *cobra.Command {
	return a.onLogin(&cobra.Command{
		Use:   "reset-password --username NAME",
		Short: "Generate a new password, shown this once, and sign the person out everywhere",
	}, func(ctx context.Context, _ *cobra.Command, service *admin.Service, id int64) error {
		person, password, err := service.ResetPassword(ctx, id)
		if err != nil {
			return err
		}
		return a.showLogin(person, password)
	})
}

func (a *app) loginResetTOTP() *cobra.Command {
	return a.onLogin(&cobra.Command{
		Use:   "reset-totp --username NAME",
		Short: "Remove a lost second factor, and sign the person out everywhere",
	}, func(ctx context.Context, _ *cobra.Command, service *admin.Service, id int64) error {
		person, err := service.ResetTOTP(ctx, id)
		if err != nil {
			return err
		}
		return a.showLogin(person, "")
	})
}
