package panel

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/coaxhq/coax/internal/admin"
	"github.com/coaxhq/coax/internal/login"
	"github.com/coaxhq/coax/internal/subscription"
	"github.com/coaxhq/coax/internal/web"
	"github.com/coaxhq/coax/internal/web/look"
)

const (
	peoplePath = "/panel/people"
	personPath = peoplePath + "/{login}"
)

// peopleRoutes are the pages on which an owner manages the operator's logins. Actions that
// grant access need a step-up; disabling a login does not.
func (p panel) peopleRoutes() []web.Route {
	post := func(path, form string, handle func(*web.Visit) error) web.Route {
		return web.Route{Method: http.MethodPost, Path: path, Area: web.Panel, Allow: owners, StepUp: true, Form: form, Handle: handle}
	}
	return []web.Route{
		{Method: http.MethodGet, Path: peoplePath, Area: web.Panel, Allow: owners, Keys: "g p", Menu: look.Text("People"), Icon: "circle-user-round", Handle: p.showPeople},
		post(peoplePath, "", p.createPerson),
		post(peoplePath+"/second-factor", peoplePath, p.requireSecondFactor),
		{Method: http.MethodGet, Path: personPath, Area: web.Panel, Allow: owners, Handle: p.showPerson},
		post(personPath+"/name", personPath, p.setPersonName),
		post(personPath+"/role", personPath, p.setPersonRole),
		{Method: http.MethodPost, Path: personPath + "/access", Area: web.Panel, Allow: owners, Form: personPath, Handle: p.setPersonAccess},
		post(personPath+"/reset-password", personPath, p.resetPersonPassword),
		post(personPath+"/reset-second-factor", personPath, p.resetPersonSecondFactor),
	}
}

// service returns the admin service for the visiting owner, limited to their operator.
func (p panel) service(v *web.Visit) *admin.OwnerService {
	service := admin.NewService(p.Store, nil, v.Actor(), p.Now).WithOrigin(v.Address)
	if !v.Session.Fresh(v.Now) {
		service = service.WithoutStepUp()
	}
	return service.ForOwner(v.Session.Person)
}

// lasting returns a context for changes, which must not be cancelled when the visitor hangs
// up.
func lasting(v *web.Visit) context.Context { return context.WithoutCancel(v.Context()) }

// told returns the text of admin's refusal in the visitor's language; empty for any other
// error.
func told(v *web.Visit, err error) string {
	var refusal *admin.Refusal
	if !errors.As(err, &refusal) {
		return ""
	}
	return v.T("This could not be done: %s.", strings.TrimSuffix(strings.TrimSuffix(say(v, refusal), "."), "।"))
}

func say(v *web.Visit, refusal *admin.Refusal) string {
	args := make([]any, len(refusal.Args))
	for i, arg := range refusal.Args {
		if inner, is := arg.(*admin.Refusal); is {
			args[i] = say(v, inner)
		} else {
			args[i] = v.RefusalArg(arg)
		}
	}
	return v.T(refusal.Form, args...)
}

// orNotFound turns a refused look-up into a 404.
func orNotFound(err error) error {
	if refusal := (*admin.Refusal)(nil); errors.As(err, &refusal) {
		return web.NotFound()
	}
	return err
}

// number parses an id in the page's path; 404 if it is not a number.
func number(v *web.Visit, name string) (int64, error) {
	id, err := strconv.ParseInt(v.R.PathValue(name), 10, 64)
	if err != nil || id < 1 {
		return 0, web.NotFound()
	}
	return id, nil
}

// person is a login with its display texts.
type person struct{ login.Person }

func (p person) RoleName() string { return web.RoleName(p.Role) }
func (p person) Path() string     { return peoplePath + "/" + strconv.FormatInt(p.ID, 10) }

// State returns the login's state, as named by badges.
func (p person) State() string {
	if p.Disabled {
		return "disabled"
	}
	return "active"
}

// roleChoices are the roles that an owner can give.
func roleChoices(v *web.Visit) (choices []look.Choice) {
	for _, role := range login.Operator.Roles() {
		choices = append(choices, look.Choice{Value: string(role), Text: v.T(web.RoleName(role))})
	}
	return choices
}

// peoplePage lists the operator's logins, with the form for a new one.
type peoplePage struct {
	People   []person
	Roles    []look.Choice
	Operator subscription.Operator
	// Name, Username and Role are the form's values; Once is its voucher.
	Name, Username, Role, Once string
	Problem                    string
	Errors                     map[string]string
}

func (p panel) showPeople(v *web.Visit) error { return p.peopleForm(v, "", nil) }

func (p panel) peopleForm(v *web.Visit, problem string, wrong map[string]string) error {
	service := p.service(v)
	people, err := service.Logins(v.Context())
	if err != nil {
		return err
	}
	page := peoplePage{
		Roles: roleChoices(v), Name: v.FormValue("name", ""), Username: v.FormValue("username", ""), Role: v.FormValue("role", string(login.Counter)),
		Problem: problem, Errors: wrong,
	}
	if page.Operator, err = service.Operator(v.Context()); err != nil {
		return err
	}
	for _, one := range people {
		page.People = append(page.People, person{one})
	}
	var brought bool
	if page.Once, brought = v.Voucher(); !brought {
		page.Once = web.NewVoucher()
	}
	if problem != "" || len(wrong) > 0 {
		v.Status = http.StatusUnprocessableEntity
	}
	return v.Show("panel/people", page)
}

// newPasswordPage shows a generated password, once. Done: the form was sent before, and the
// password was shown then.
type newPasswordPage struct {
	Login    person
	Password string
	Done     bool
	Back     string
}

func (p panel) createPerson(v *web.Visit) error {
	voucher, brought := v.Voucher()
	wrong := map[string]string{}
	for _, name := range []string{"name", "username"} {
		if v.Field(name) == "" {
			wrong[name] = v.T("This is required.")
		}
	}
	if _, ok := login.FoldUsername(v.Field("username")); !ok && wrong["username"] == "" {
		wrong["username"] = v.T("Enter 3 to 64 of a-z, 0-9 and . _ - @")
	}
	role := login.Role(v.Field("role"))
	if !slices.Contains(login.Operator.Roles(), role) {
		wrong["role"] = v.T("Choose one of these.")
	}
	problem := ""
	if !brought {
		problem = v.T("The form was incomplete. Fill it in again.")
	}
	if problem != "" || len(wrong) > 0 {
		return p.peopleForm(v, problem, wrong)
	}
	service := p.service(v).WithVoucher(voucher)
	made, password, err := service.CreateLogin(lasting(v), v.Field("username"), v.Field("name"), role)
	if err != nil {
		return p.undone(v, service, err, func(why string) error { return p.peopleForm(v, why, nil) })
	}
	return v.Show("panel/new-password", newPasswordPage{Login: person{made}, Password: password, Back: peoplePath})
}

// undone handles the error of an action with a voucher: for a form that was sent before it
// shows that page, any other refusal is shown with the form.
func (p panel) undone(v *web.Visit, service *admin.OwnerService, err error, show func(why string) error) error {
	why := told(v, err)
	if why == "" {
		return err
	}
	first, found, lookUp := service.Done(v.Context())
	if lookUp != nil {
		return lookUp
	}
	if !found {
		return show(why)
	}
	id, _ := strconv.ParseInt(strings.TrimPrefix(first.Subject, "login "), 10, 64)
	known, err := service.Login(v.Context(), id)
	if err != nil {
		return orNotFound(err)
	}
	return v.Show("panel/new-password", newPasswordPage{Login: person{known}, Done: true, Back: person{known}.Path()})
}

func (p panel) requireSecondFactor(v *web.Visit) error {
	if _, err := p.service(v).RequireSecondFactor(lasting(v)); err != nil {
		if why := told(v, err); why != "" {
			return p.peopleForm(v, why, nil)
		}
		return err
	}
	return v.Redirect(peoplePath, v.Success("A second factor is now required. People without one set it up the next time they open a page."))
}

// personPage is one login of the operator.
type personPage struct {
	Login person
	// Own: it is the visitor's own login, which they must not lock out.
	Own     bool
	Roles   []look.Choice
	Once    string
	Problem string
}

// person returns the login in the page's path, which must be the operator's own.
func (p panel) person(v *web.Visit) (login.Person, error) {
	id, err := number(v, "login")
	if err != nil {
		return login.Person{}, err
	}
	found, err := p.service(v).Login(v.Context(), id)
	return found, orNotFound(err)
}

func (p panel) showPerson(v *web.Visit) error { return p.personForm(v, "") }

func (p panel) personForm(v *web.Visit, problem string) error {
	found, err := p.person(v)
	if err != nil {
		return err
	}
	page := personPage{Login: person{found}, Own: found.ID == v.Session.Person.ID, Roles: roleChoices(v), Problem: problem}
	var brought bool
	if page.Once, brought = v.Voucher(); !brought {
		page.Once = web.NewVoucher()
	}
	if problem != "" {
		v.Status = http.StatusUnprocessableEntity
	}
	return v.Show("panel/person", page)
}

// onPerson runs an action on the login in the path, and shows its page again after a
// refusal.
func (p panel) onPerson(v *web.Visit, action func(login.Person) error) error {
	found, err := p.person(v)
	if err != nil {
		return err
	}
	if err := action(found); err != nil {
		if why := told(v, err); why != "" {
			return p.personForm(v, why)
		}
		return err
	}
	return nil
}

func (p panel) changePerson(v *web.Visit, change admin.LoginChange, done func(login.Person) *look.Notice) error {
	return p.onPerson(v, func(found login.Person) error {
		changed, err := p.service(v).ChangeLogin(lasting(v), found.ID, change)
		if err != nil {
			return err
		}
		return v.Redirect(person{changed}.Path(), done(changed))
	})
}

func (p panel) setPersonName(v *web.Visit) error {
	name := v.Field("name")
	return p.changePerson(v, admin.LoginChange{Name: &name}, func(login.Person) *look.Notice { return v.Success("Changed.") })
}

func (p panel) setPersonRole(v *web.Visit) error {
	role := login.Role(v.Field("role"))
	return p.changePerson(v, admin.LoginChange{Role: &role}, func(login.Person) *look.Notice {
		return v.Success("Changed. It applies immediately, also where they are signed in.")
	})
}

func (p panel) setPersonAccess(v *web.Visit) error {
	disabled := v.Field("disabled") == "yes"
	return p.changePerson(v, admin.LoginChange{Disabled: &disabled}, func(changed login.Person) *look.Notice {
		if disabled {
			return v.Success("%s is disabled and signed out everywhere.", changed.Username)
		}
		return v.Success("%s can sign in again.", changed.Username)
	})
}

func (p panel) resetPersonPassword(v *web.Visit) error {
	voucher, brought := v.Voucher()
	return p.onPerson(v, func(found login.Person) error {
		if !brought {
			return p.personForm(v, v.T("The form was incomplete. Fill it in again."))
		}
		service := p.service(v).WithVoucher(voucher)
		changed, password, err := service.ResetPassword(lasting(v), found.ID)
		if err != nil {
			return p.undone(v, service, err, func(why string) error { return p.personForm(v, why) })
		}
		return v.Show("panel/new-password", newPasswordPage{Login: person{changed}, Password: password, Back: person{changed}.Path()})
	})
}

func (p panel) resetPersonSecondFactor(v *web.Visit) error {
	return p.onPerson(v, func(found login.Person) error {
		changed, err := p.service(v).ResetTOTP(lasting(v), found.ID)
		if err != nil {
			return err
		}
		return v.Redirect(person{changed}.Path(), v.Success("The second factor of %s was removed, and they were signed out everywhere.", changed.Username))
	})
}
