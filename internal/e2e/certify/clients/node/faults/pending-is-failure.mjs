// Wrong: takes 202 for a failure; an order that succeeds later was charged, and the customer is told that it failed.
export default (Client) =>
  class extends Client {
    afterSend(call, answer) {
      if (answer.status === 202 && answer.code) return this.failed(call);
      return super.afterSend(call, answer);
    }
  };
