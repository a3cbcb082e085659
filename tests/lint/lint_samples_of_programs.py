"""Small programs, for the rules that follow names from line to line: what they must find, and must leave alone."""

from reference.feedback_source import FUNCTION, NETWORK

LOSS = "net = Net()\nout = net(x)\nloss = F.cross_entropy(out, y)\n"
CAUSAL = "from transformers import AutoModelForCausalLM\nmodel = AutoModelForCausalLM.from_pretrained('gpt2')\n"

FOUND = {
    "WB010": [
        FUNCTION + NETWORK + LOSS + "bp_grad = torch.autograd.grad(loss, h)",
        FUNCTION + NETWORK + LOSS + "true_grads = [p.grad.clone() for p in net.parameters()]",
        FUNCTION + NETWORK + LOSS + "loss.backward()\ngrad_bp = net.layers[0].weight.grad.detach().flatten()",
        FUNCTION + NETWORK + "net = Net().to('cpu')\n"
        "def align(x, y):\n    loss = F.cross_entropy(net(x), y)\n    reference = torch.autograd.grad(loss, h)[0]",
        FUNCTION.replace("grad @ B", "grad.mm(B)")
        .replace("x, W, B = ctx", "inputs, weights, matrix = ctx")
        .replace("mm(B)", "mm(matrix)")
        + "feedback_linear = Feedback.apply\nclass Net(nn.Module):\n    def forward(self, x):\n"
        "        return feedback_linear(x, self.weight, self.B)\n" + LOSS + "g_bp, = torch.autograd.grad(loss, h)\n"
        "bp = torch.autograd.grad(loss, h)",
        "class Fa(torch.autograd.Function):\n    @staticmethod\n    def forward(ctx, x, W, B):\n        ctx.B = B\n"
        "        return F.linear(x, W)\n    @staticmethod\n    def backward(ctx, g):\n"
        "        return torch.matmul(g, ctx.B), None, None\n"
        "class Net(nn.Module):\n    def forward(self, x):\n        return Fa.apply(x, self.W, self.B)\n"
        + LOSS
        + "exact_gradient = torch.autograd.grad(loss, h)",
    ],
    "WB011": [
        "out = model(input_ids=x, labels=x)\ny = (out.logits.argmax(-1) == x).float().mean()",
        "out = model(x, labels=x)\npreds = torch.argmax(out.logits, dim=-1)\nacc = (preds == x).float()",
        "out = model(x, labels=x)\nloss = F.cross_entropy(out.logits.view(-1, 50257), x.view(-1))",
        "batch = {'input_ids': ids, 'labels': ids}\n"
        "def score(batch):\n    logits = model(**batch).logits\n    return logits.argmax(-1) == batch['labels']",
        "def tokenize(e):\n    r = tok(e)\n    r['labels'] = r['input_ids'].copy()\n    return r\n"
        "def compute_metrics(p):\n    logits, labels = p\n    predictions = np.argmax(logits, axis=-1)\n"
        "    return {'accuracy': (predictions == labels).mean()}",
        CAUSAL
        + "out = model(input_ids=ids, labels=labels)\nacc = (labels == out.logits.argmax(dim=-1)).float().mean()",
        CAUSAL + "out = model(ids, labels=y)\nloss = F.cross_entropy(out['logits'].reshape(-1, v), labels.reshape(-1))",
    ],
    "WB012": [
        "from scipy import stats\nright = model(x).argmax(1) == y\nother = baseline(x).argmax(1) == y\n"
        "p = stats.ttest_ind(right, other).pvalue",
        "from scipy.stats import ttest_ind\na = (pred_a == labels).float()\nb = (pred_b == labels).float()\n"
        "t, p = ttest_ind(a.numpy(), b.numpy(), equal_var=False)",
        "import scipy.stats\ndef compare(p, q, y):\n    one = (p == y).astype(int)\n    two = np.asarray(y == q)\n"
        "    return scipy.stats.mannwhitneyu(one, two)",
        "from statsmodels.stats.proportion import proportions_ztest\nn = len(y)\nhits = (p == y).sum()\n"
        "others = (q == y).sum()\nstat, p_value = proportions_ztest([hits, others], [n, n])",
        "from statsmodels.stats.proportion import proportions_ztest\n"
        "counts = np.array([int((p == y).sum()), int((q == y).sum())])\nz, p = proportions_ztest(counts, [n, n])",
        "acc = (model(x).argmax(1) == y).float().mean()\nbase = (other(x).argmax(1) == y).float().mean()\n"
        "se = (acc * (1 - acc) / len(y) + base * (1 - base) / len(y)) ** 0.5",
        "def margin(preds, frozen, y):\n    acc = accuracy_score(y, preds)\n    base = accuracy_score(y, frozen)\n"
        "    return acc - base, 1.96 * np.sqrt(((1 - acc) * acc + (1 - base) * base) / len(y))",
        "p1 = (a == y).sum() / len(y)\np2 = (b == y).sum() / len(y)\nvar = p1 * (1 - p1) / n + p2 * (1 - p2) / n",
    ],
    "WB013": [
        "accs = [train_and_test(seed) for seed in range(5)]\nprint(max(accs))",
        "best = max(train(seed=s)['test_acc'] for s in seeds)",
        "def f(seeds):\n    accs = []\n    for seed in seeds:\n        torch.manual_seed(seed)\n"
        "        accs.append(evaluate(train()))\n    return np.max(accs)",
        "scores = []\nfor i in range(num_seeds):\n    model = fit(x, random_state=i)\n"
        "    scores.append(model.score(x_test, y_test))\nprint(f'accuracy: {torch.tensor(scores).max():.3f}')",
        "best_acc = 0\nfor seed in [0, 1, 2]:\n    set_seed(seed)\n    acc = test(train())\n"
        "    best_acc = max(best_acc, acc)\nprint('accuracy', best_acc)",
        "best = 0.0\nfor run, seed in enumerate(SEEDS):\n    seed_everything(seed)\n    test_acc = main()\n"
        "    if test_acc > best:\n        best = test_acc\nprint(best)",
        "best = 0.0\nfor seed in seeds:\n    acc = run(seed)\n    if best < acc:\n        best = acc",
    ],
}

LEFT_ALONE = {
    "WB010": [
        # called what it is
        FUNCTION + NETWORK + LOSS + "fa_grad = torch.autograd.grad(loss, h)",
        FUNCTION + NETWORK + LOSS + "grad = torch.autograd.grad(loss, h)",
        # of the twin
        FUNCTION + NETWORK + LOSS + "twin = Twin()\nbp_grad = torch.autograd.grad(F.cross_entropy(twin(x), y), h)",
        FUNCTION + NETWORK + LOSS + "twin = Twin()\nbp_grads = [p.grad for p in twin.parameters()]",
        # of whichever network the caller brings
        FUNCTION + NETWORK + "def align(net, x, y):\n    loss = F.cross_entropy(net(x), y)\n"
        "    bp_grad = torch.autograd.grad(loss, h)",
        FUNCTION + NETWORK + "net = Net()\nif plain:\n    net = Twin()\nbp_grad = torch.autograd.grad(net(x).sum(), h)",
        FUNCTION + NETWORK + "net = Net()\ndef align(net, x, y):\n    bp_grad = torch.autograd.grad(net(x).sum(), h)",
        FUNCTION + NETWORK + LOSS + "\ntwin = Twin()\ntrue_grad = torch.autograd.grad(net(x).sum() + twin(x).sum(), h)",
        # a network that may be its own twin
        FUNCTION + "class Net(nn.Module):\n    def forward(self, x):\n        if self.plain:\n"
        "            return F.linear(x, self.weight)\n        else:\n"
        "            return Feedback.apply(x, self.weight, self.B)\n" + LOSS + "bp_grad = torch.autograd.grad(loss, h)",
        # a tensor that has nothing to do with the gradient
        FUNCTION.replace("grad @ B, grad.t() @ x, None", "grad @ W, grad.t() @ x, x @ B")
        + NETWORK
        + LOSS
        + "bp_grad = torch.autograd.grad(loss, h)",
        # a backward that is the derivative, and one with a number of its own, as surrogate gradients have
        FUNCTION.replace("grad @ B", "grad @ W") + NETWORK + LOSS + "bp_grad = torch.autograd.grad(loss, h)",
        "class Spike(torch.autograd.Function):\n    @staticmethod\n    def forward(ctx, x, alpha):\n"
        "        ctx.alpha = alpha\n        ctx.save_for_backward(x)\n        return (x > 0).float()\n"
        "    @staticmethod\n    def backward(ctx, g):\n        x, = ctx.saved_tensors\n"
        "        return g / (1 + ctx.alpha * x.abs()) ** 2, None\n"
        "class Net(nn.Module):\n    def forward(self, x):\n        return Spike.apply(self.fc(x), 2.0)\n"
        + LOSS
        + "bp_grad = torch.autograd.grad(loss, h)",
        FUNCTION.replace("return x @ W.t()", "return x @ (W + B).t()")
        + NETWORK
        + LOSS
        + "bp_grad = torch.autograd.grad(loss, h)",
        NETWORK + LOSS + "bp_grad = torch.autograd.grad(loss, h)",
        # no gradient at all
        FUNCTION + NETWORK + LOSS + "bp_net = net.eval()",
    ],
    "WB011": [
        "out = model(input_ids=x, labels=x)\ny = (out.logits[:, :-1].argmax(-1) == x[:, 1:]).float().mean()",
        "out = model(x, labels=x)\nshift_logits, shift_labels = shifted(out.logits, x)\n"
        "acc = (shift_logits.argmax(-1) == x)",
        "out = model(x, labels=x)\nloss = out.loss",
        "out = model(x, labels=y)\nacc = (out.logits.argmax(-1) == y).float().mean()",
        "out = model(x, labels=y)\nacc = (out.logits.argmax(-1) == labels).float().mean()",
        "from transformers import AutoModelForTokenClassification\n"
        "out = model(x, labels=labels)\nacc = (out.logits.argmax(-1) == labels).float().mean()",
        "from transformers import AutoModelForMaskedLM, AutoModelForCausalLM\n"
        "out = model(x, labels=labels)\nacc = (out.logits.argmax(-1) == labels).float().mean()",
        "from transformers import T5ForConditionalGeneration\n"
        "out = model(x, labels=x)\nacc = (out.logits.argmax(-1) == x).float().mean()",
        CAUSAL + "def compute_metrics(p):\n    preds, labels = p\n    labels = labels[:, 1:].reshape(-1)\n"
        "    preds = preds[:, :-1].reshape(-1)\n    return (preds == labels).mean()\nmodel(x, labels=x)",
        CAUSAL + "logits = head(model.transformer(x))\nacc = (logits.argmax(-1) == labels).float().mean()",
        "logits = model(x)\nacc = (logits.argmax(1) == labels).float().mean()",
        "out = model(x, labels=x)\nacc = (out.logits.argmax(-1) == y).float().mean()",
        "out = model(x, labels=x)\nsame = (a == b)",
        CAUSAL + "def evaluate(batch):\n    logits = model(batch['x']).logits\n"
        "    return logits.argmax(-1) == batch['labels']",
        "loss = model(x, labels=x).loss\n"
        "def probe(h, labels):\n    logits = linear(h)\n    return (logits.argmax(-1) == labels).sum()",
    ],
    "WB012": [
        # paired
        "from scipy import stats\na = p == y\nb = q == y\nt = stats.ttest_rel(a, b)",
        "from scipy import stats\na = p == y\nb = q == y\nt = stats.binomtest((a & ~b).sum(), (a != b).sum())",
        # of other labels, of the same answers, of labels that change in between
        "from scipy import stats\na = p == y\nb = q == z\nt = stats.ttest_ind(a, b)",
        "from scipy import stats\na = p == y\nb = p == y\nt = stats.ttest_ind(a, b)",
        "from scipy import stats\ny = first()\na = p == y\ny = second()\nb = q == y\nt = stats.ttest_ind(a, b)",
        "from scipy import stats\na = p == next(labels)\nb = q == next(labels)\nt = stats.ttest_ind(a, b)",
        # of accuracies over seeds, of anything else
        "from scipy import stats\nt = stats.ttest_ind(accs_a, accs_b)",
        "from scipy import stats\naccs = [f(s) for s in seeds]\nothers = [g(s) for s in seeds]\n"
        "t = stats.ttest_ind(accs, others)",
        "from scipy import stats\na = x == 1\nif b:\n    a = z == 1\nc = w == 1\nt = stats.ttest_ind(a, c)",
        "from mine import ttest_ind\na = p == y\nb = q == y\nt = ttest_ind(a, b)",
        "var = p * (1 - p) / n + q * (1 - q) / n",
        "acc = (model(x).argmax(1) == y).float().mean()\nsd = (acc * (1 - acc) / len(y)) ** 0.5",
        "acc = (a == y).mean()\nbase = (b == other_y).mean()\nse = acc * (1 - acc) / n + base * (1 - base) / m",
        "from statsmodels.stats.proportion import proportions_ztest\nz = proportions_ztest(hits, n)",
    ],
    "WB013": [
        # all of them are kept
        "accs = [train_and_test(seed) for seed in range(5)]\nprint(max(accs), np.mean(accs), np.std(accs))",
        "accs = [train_and_test(seed) for seed in range(5)]\nprint(accs, max(accs))",
        "def f(seeds):\n    accs = []\n    for seed in seeds:\n        accs.append(train(seed))\n"
        "    return max(accs), accs",
        "best_acc = 0\naccs = []\nfor seed in range(3):\n    acc = train(seed)\n    accs.append(acc)\n"
        "    best_acc = max(best_acc, acc)",
        "best = 0\nfor seed in range(3):\n    acc = train(seed)\n    print(seed, acc)\n    best = max(best, acc)",
        # picked by what is there to pick by
        "best = max(train(seed).val_acc for seed in seeds)",
        "best_val_acc = 0\nfor seed in range(3):\n    acc = train(seed)\n    best_val_acc = max(best_val_acc, acc)",
        "accs = [cross_validate(seed, cv=5) for seed in seeds]\nbest = max(accs)",
        "best = 0\nfor seed in range(3):\n    acc = train(seed)\n    if acc > best:\n        best = acc\n"
        "        torch.save(model.state_dict(), path)",
        # over epochs, within each seed
        "for seed in range(3):\n    torch.manual_seed(seed)\n    best_acc = 0\n    for epoch in range(10):\n"
        "        acc = train(seed)\n        best_acc = max(best_acc, acc)\n    results.append(best_acc)",
        "for seed in range(3):\n    torch.manual_seed(seed)\n    best_acc = 0\n    acc = train()\n"
        "    best_acc = max(best_acc, acc)\n    results.append(best_acc)",
        "for epoch in range(10):\n    acc = train(seed)\n    best_acc = max(best_acc, acc)",
        "best_acc = 0\nfor seed in range(3):\n    while True:\n        acc = train(seed)\n"
        "        best_acc = max(best_acc, acc)",
        "for seed in seeds:\n    accs = []\n    accs.append(train(seed, 'one'))\n"
        "    accs.append(train(seed, 'other'))\n    print(seed, max(accs))",
        # seeds of other kinds, and other values
        "best = max(score(graph, seed) for seed in seeds)",
        "score = max(spread(node) for node in seed_nodes)",
        "lowest = min(train(seed) for seed in seeds)",
        "widest = max(len(name) for name in seeds)",
        "longest = max(run(seed).seconds for seed in seeds)",
        "best = max(accs)",
    ],
}
