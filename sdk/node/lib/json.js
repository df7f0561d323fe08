import { inspect } from "node:util";
import { Amount } from "./amount.js";

// Strings and numbers, the only tokens of JSON with contents.
const TOKEN = /"[^"\\]*(?:\\[^][^"\\]*)*"|-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?/g;

// The fields with amounts. Here a number without decimals is an amount, too.
const AMOUNTS = new Set(["amount", "price", "wallet_balance", "required_amount", "shortfall", "before", "after", "charged"]);

// decode reads JSON. Numbers with one or two decimals, which are amounts, become an
// Amount without ever being a binary fraction. An object with a password is redacted when
// it is printed.
//
// JSON.parse has no access to a number's text before Node 21. So every number is quoted,
// and marked with n, and every string is marked with s, which is removed again.
export function decode(text) {
  const marked = text.replace(TOKEN, (token) => (token[0] === '"' ? `"s${token.slice(1)}` : `"n${token}"`));
  return unmark(JSON.parse(marked), "");
}

function unmark(value, name) {
  if (typeof value === "string") {
    return value[0] === "s" ? value.slice(1) : numberOf(value.slice(1), name);
  }
  if (Array.isArray(value)) {
    return value.map((item) => unmark(item, ""));
  }
  if (value === null || typeof value !== "object") {
    return value;
  }
  const fields = Object.entries(value).map(([marked, field]) => {
    if (marked[0] !== "s") {
      throw new SyntaxError("a name in an object is a number");
    }
    return [marked.slice(1), unmark(field, marked.slice(1))];
  });
  return redacted(Object.fromEntries(fields));
}

function numberOf(text, name) {
  const isAmount = AMOUNTS.has(name) ? /^[^eE]*$/ : /^[^eE]*\.[^eE]*$/;
  if (isAmount.test(text)) {
    try {
      return Amount.parse(text);
    } catch {
      // It has more than two decimals: a number of another kind.
    }
  }
  return Number(text);
}

// redacted returns an object whose password, if it has one, is readable by name and
// neither printed nor encoded.
export function redacted(fields) {
  return typeof fields.password === "string" ? new Customer(fields) : fields;
}

class Customer {
  #password;

  constructor({ password, ...fields }) {
    // Not Object.assign, which would call the setter of __proto__.
    Object.defineProperties(this, Object.getOwnPropertyDescriptors(fields));
    this.#password = password;
  }

  // On the prototype, because util.inspect may evaluate an object's own getters.
  get password() {
    return this.#password;
  }

  toJSON() {
    return { ...this, password: "[secret]" };
  }

  [inspect.custom](depth, options) {
    return inspect({ ...this, password: "[secret]" }, options);
  }
}

// With showHidden and getters, util.inspect evaluates the getters of a class, but not
// those of a built-in one.
Object.defineProperty(Customer.prototype, "constructor", { value: Object });
