// Wrong: takes a lost answer (reset, cut, time-out after sending) for a failure; the service may have carried the order out.
export default (Client) =>
  class extends Client {
    afterSend(call, answer) {
      if (answer.status === 0 && answer.sent) return this.failed(call);
      return super.afterSend(call, answer);
    }
  };
